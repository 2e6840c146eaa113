"""Fast path of a connection's thread: small work that comes alone is done at once, in the thread of its caller.

It equals a batch of one in `ConnectionThread`, the slow path, which costs two changes of thread: three times as much.
It never waits, neither for a lock nor for the disk: work that would have to wait for a lock is left to the thread.
What follows upon the commit is left to the caller.
Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from ....errors import StoreFull
from .ask import Ask, Work, WorkConnection
from .wal import EVERYTHING

SMALL = 20
"""Up to so many jobs, work is small enough to be done in the event loop's own thread: some hundred microseconds."""


def at_once(on: WorkConnection, work: Work[Any]) -> Ask | None:
    """Return the work, done here and now; `None`, with nothing done, when it would have to wait."""
    if not on.using.acquire(blocking=False):
        return None
    try:
        if on.connection is None or (on.writes and not _begin(on, on.connection)):
            return None
        ask = Ask(work)
        on.do_alone(ask, on.connection)
        ask.left_long_log = on.writes and on.log.is_due()
    finally:
        on.using.release()
    return ask


def _begin(on: WorkConnection, connection: sqlite3.Connection) -> bool:
    """Begin a transaction, or return False: the lock of another process is waited for in the thread, not here."""
    try:
        on.log.admit(EVERYTHING)
        connection.execute("BEGIN IMMEDIATE")
    except (sqlite3.Error, StoreFull):
        return False
    return True
