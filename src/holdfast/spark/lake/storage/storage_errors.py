"""Errors of a disk or of object storage, as one line that says what is wrong and what to do next."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import CommitFailedError, DeltaError

from ....errors import ConfigError, HoldfastError, LakeError
from .location import LakeLocation

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST = 300
_SIGNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"NoSuchBucket|NoSuchContainer|ContainerNotFound|bucket does not exist", re.I),
        "the bucket does not exist: make it first, or correct --path",
    ),
    (
        re.compile(r"No space left|os error 28\b|StorageFull|QuotaExceeded|disk quota", re.I),
        "no space is left: make room, then run it again; nothing is half-written",
    ),
    (
        re.compile(
            r"necessary privileges|PermissionDenied|Permission denied|AccessDenied|Forbidden|Unauthorized"
            r"|InvalidAccessKeyId|Invalid Access Key|SignatureDoesNotMatch"
            r"|os error 13\b|read-only file system|os error 30\b",
            re.I,
        ),
        "no permission: check the credentials (--storage-option or the environment) and who may read and write there",
    ),
    (
        re.compile(r"credential|Account must be specified|instance metadata|IMDS|169\.254\.169\.254", re.I),
        "no credentials were found: give them with --storage-option or in the environment",
    ),
    (
        re.compile(r"error sending request|Connection refused|dns error|timed out|connect error", re.I),
        "it cannot be reached: check the endpoint and the network, then run it again",
    ),
    (
        re.compile(r"Not a directory|os error 20\b", re.I),
        "a file is in the way: name a folder of its own for the lake",
    ),
)
_NUMBERS = {
    errno.ENOSPC: 1,
    errno.EDQUOT: 1,
    errno.EACCES: 2,
    errno.EPERM: 2,
    errno.EROFS: 2,
    errno.ENOTDIR: 5,
    errno.EEXIST: 5,
}
_WRONG_PLACE = {0, 5}
"""Signs of a path that cannot be right, however often one tries."""


@contextmanager
def plain_storage_errors(location: LakeLocation) -> Iterator[None]:
    """Raise an error of the storage as a `LakeError` or `ConfigError` of one line. Others pass as they are."""
    try:
        yield
    except (HoldfastError, CommitFailedError):
        raise
    except (OSError, DeltaError) as error:
        raise storage_error(location, error) from error


def storage_error(location: LakeLocation, error: Exception) -> HoldfastError:
    """Return the error that says in one line what the storage did not do."""
    text = " ".join(_ANSI.sub("", str(error)).replace("↳", "").split())
    found = _NUMBERS.get(getattr(error, "errno", None) or 0)
    if found is None:
        found = next((at for at, (sign, _) in enumerate(_SIGNS) if sign.search(text)), None)
    if found is None:
        return LakeError(f"the lake {location}: {text[:_LONGEST]}; run it again, nothing is lost or doubled")
    kind = ConfigError if found in _WRONG_PLACE else LakeError
    return kind(f"the lake {location}: {_SIGNS[found][1]}")
