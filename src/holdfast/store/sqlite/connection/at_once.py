"""Fast path of a connection's thread: small work that comes alone is done at once, in the thread of its caller.

It equals a batch of one in `ConnectionThread`, the slow path, which costs two changes of thread: three times as much.
It never waits, neither for a lock nor for the disk: work that would have to is left to the thread.
Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from ....errors import StoreFull
from ..notify import follow_up
from .ask import Ask, Work, WorkConnection
from .wal import EVERYTHING

SMALL = 20
"""Up to so many jobs, work is small enough to be done in the event loop's own thread: some hundred microseconds."""


def at_once(on: WorkConnection, work: Work[Any]) -> Ask | None:
    """Return the work, done here and now; `None`, with nothing done, when it would have to wait."""
    if _waits_for_disk(on) or not on.using.acquire(blocking=False):
        return None
    try:
        if on.connection is None or (on.writes and not _begin(on, on.connection)):
            return None
        ask = Ask(work)
        on.do_alone(ask, on.connection)
        ask.left_long_log = on.writes and on.log.is_due()
    finally:
        on.using.release()
    if ask.error is None:
        follow_up(ask.after)
    return ask


def _waits_for_disk(on: WorkConnection) -> bool:
    return on.address.path is not None and on.address.synchronous not in ("OFF", "NORMAL")


def _begin(on: WorkConnection, connection: sqlite3.Connection) -> bool:
    """Begin a transaction, or return False: the lock of another process is waited for in the thread, not here."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        on.log.admit(EVERYTHING)
        connection.execute("BEGIN IMMEDIATE")
    except (sqlite3.Error, StoreFull):
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(on.address.busy_timeout * 1000)}")
    return True
