"""A shortage on the worker's machine: what keeps a handler from starting, and is no fault of its job."""

from __future__ import annotations

import errno
import os

from ..errors import HoldfastError

SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS, errno.EIO}
)
"""The errors of a system that has no more descriptors, memory, processes, threads or disk."""
NO_THREAD = "can't start new thread"


class CannotStart(HoldfastError):
    """The handler did not run, as its worker lacks memory or the like: the job is handed back free of charge."""


def is_shortage(error: BaseException | None) -> bool:
    """Return whether the machine lacks something, in this error or in one that it wraps."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if _is_shortage_itself(error):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def _is_shortage_itself(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in SHORTAGES
    if isinstance(error, ImportError):  # of a shared library, for which only the text says why
        return any(os.strerror(number) in str(error) for number in SHORTAGES)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_THREAD in str(error))
