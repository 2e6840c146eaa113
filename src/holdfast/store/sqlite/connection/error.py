"""SQLite's errors as Holdfast's own, with what to do next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ....errors import StoreBusy, StoreClosed, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from ..url import SqliteAddress
from .lock_owner import lock_owners


def _writer(address: SqliteAddress) -> str:
    """Name the process that has the write lock now, as far as that can be known."""
    found = lock_owners(address.path, "writer") if address.path is not None else []
    return found[0] if found else "another process"


@contextmanager
def translated(address: SqliteAddress) -> Iterator[None]:
    """Translate the errors of SQLite that leave the block."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, address) from error


_TROUBLE = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOTADB,
})  # fmt: skip


def is_trouble(error: sqlite3.Error) -> bool:
    """True for trouble with the file itself, not with the statement that was run."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _TROUBLE


def is_busy(error: sqlite3.Error) -> bool:
    """True when another connection has the lock."""
    text = str(error)
    return "locked" in text or "busy" in text


def translate(error: sqlite3.Error, address: SqliteAddress) -> StoreError:
    """Return Holdfast's error for one of SQLite's."""
    text = str(error)
    if is_busy(error):
        return StoreBusy(
            f"{address} was locked by {_writer(address)} for over {address.busy_timeout:g} s; "
            "end its long transaction, or raise busy_timeout"
        )
    if "full" in text:
        return StoreFull(f"{address}: no room left on the disk; nothing of this call was written ({text})")
    if "image is malformed" in text or "not a database" in text:
        return StoreCorrupt(f"{address} is damaged or not a SQLite file ({text}); restore it from a backup")
    if "readonly" in text or "read-only" in text:
        return StoreReadOnly(f"{address} cannot be written; check the rights of the file and its folder")
    if "unable to open" in text:
        return StoreError(f"{address} cannot be opened; check the path and its rights")
    if "closed database" in text:
        return StoreClosed(f"{address} is closed")
    return StoreError(f"{address}: {text}")
