"""What an error of the server means: whether a call may be repeated, and which of our errors it becomes."""

from __future__ import annotations

from typing import Literal

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
)

from ....errors import StoreBusy, StoreError, StoreFull, StoreReadOnly
from .address import RedisAddress
from .link import Lost, Unsent

Trouble = Literal["no library", "moved", "half moved", "read only", "full", "temporary", "final"]
_TEMPORARY = (
    "LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "Redis is loading", "UNBLOCKED",
)  # fmt: skip
_BUSY_TYPES = ("BusyLoading", "TryAgain", "ClusterDown", "MasterDown")


def trouble(error: Exception) -> Trouble:
    """Return what kind of trouble an error is that the server answered with: nothing was done."""
    text = str(error)
    if "unction not found" in text:
        return "no library"
    if isinstance(error, MovedError):
        return "moved"
    if isinstance(error, AskError):
        return "half moved"  # half of the queue is elsewhere: nothing can be done with it until all of it is
    if isinstance(error, ReadOnlyError):
        return "read only"
    if text.startswith(("OOM", "MISCONF")) or "command not allowed when used memory" in text:
        return "full"
    if type(error).__name__.startswith(_BUSY_TYPES) or text.startswith(_TEMPORARY):
        return "temporary"
    return "final"


def translated(address: RedisAddress, error: Exception) -> StoreError:
    """Return our error for one of the server's, with what to do next."""
    text = str(error) or type(error).__name__
    if isinstance(error, Unsent):
        return StoreError(f"{address} cannot be reached: {text}; check that it runs, its address and password")
    if isinstance(error, Lost):
        return StoreError(f"{address} did not answer: {text}; the call may be repeated")
    if text.startswith("OOM") or "used memory" in text:
        return StoreFull(f"{address} has no memory left (maxmemory); nothing of this call was written ({text})")
    if text.startswith("MISCONF"):
        what = "append-only file" if "AOF" in text else "snapshots"
        return StoreFull(
            f"{address} cannot write its {what} to disk; nothing of this call was written ({text}); "
            "make room on the server's disk"
        )
    if isinstance(error, ReadOnlyError) or "read only replica" in text:
        return StoreReadOnly(f"{address} is a replica and cannot be written; connect to the primary")
    if isinstance(error, AuthenticationError | AuthorizationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return StoreError(f"{address} refuses this login: {text}; check user and password in the URL")
    if isinstance(error, NoPermissionError):
        return StoreError(f"{address}: {text}; docs/reference/redis.md says what an ACL user needs")
    if isinstance(error, AskError):
        return StoreBusy(f"{address}: the slot of this queue is being moved ({text}); try again later")
    busy = type(error).__name__.startswith(_BUSY_TYPES)
    if busy or text.startswith(("BUSY", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN")):
        return StoreBusy(f"{address} was busy for over {address.retry_for:g} s: {text}; try again later")
    return StoreError(f"{address}: {text}")
