"""The worker's own trouble: what keeps a handler from starting, and is no fault of its job."""

from __future__ import annotations

import errno
import os

from ..errors import HoldfastError

WANT = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS, errno.EIO}
)
"""What the system says when it has no more descriptors, memory, processes, threads or disk."""
NO_THREAD = "can't start new thread"


class CannotStart(HoldfastError):
    """The handler did not run, for want of what its worker should have: the job is handed back free of charge."""


def is_want(error: BaseException | None) -> bool:
    """Return whether something is missing that the machine should have, whoever asked for it and wrapped the error."""
    while error is not None:
        if _is_want_itself(error):
            return True
        error = error.__cause__
    return False


def _is_want_itself(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in WANT
    if isinstance(error, ImportError):  # of a shared library, for which only the text says why
        return any(os.strerror(number) in str(error) for number in WANT)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_THREAD in str(error))
