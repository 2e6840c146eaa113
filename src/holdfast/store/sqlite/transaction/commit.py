"""The end of a caller's transaction, seen from a connection beside it: a commit wakes those whom its jobs concern.

SQLite does not report a commit. But a transaction that has taken jobs in has the only write lock, so until its end no
other one commits: the first change that another connection sees is that commit, and a lock that can be had without
one means that it was rolled back.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import threading
import time

from ....log import with_logger
from ..notify import After, follow_up
from ..url import SqliteAddress

log = logging.getLogger("holdfast")
SOON = 0.001
LATER = 0.02
"""A short transaction is looked at each millisecond, a long one as seldom as this."""
_open: set[CommitWatch] = set()


class CommitWatch:
    """One transaction, from its first job to its end, and what is to be done if that is a commit."""

    def __init__(self, address: SqliteAddress, after: After) -> None:
        assert address.path is not None
        self._after = after
        self._process = os.getpid()
        self._using = threading.Lock()
        self._connection = sqlite3.connect(address.path, timeout=0, isolation_level=None, check_same_thread=False)
        self._before = self._version()

    def start(self) -> None:
        """Look from a thread of its own, until the transaction has ended."""
        _open.add(self)
        try:
            threading.Thread(target=with_logger(self._run), name="holdfast-commit", daemon=True).start()
        except BaseException:
            self._end()
            raise

    def _run(self) -> None:
        began = time.monotonic()
        while not self.look():
            time.sleep(min(LATER, SOON + (time.monotonic() - began) / 8))

    def look(self) -> bool:
        """Return whether the transaction has ended; if so, workers and watchers have been told.

        It counts as open until they are, so that a process which ends meanwhile waits for it.
        """
        with self._using:
            if self not in _open or self._process != os.getpid():
                return True
            committed = self._committed()
            if committed is None:
                return False
            try:
                follow_up(self._after if committed else [])
            finally:
                self._end()
        return True

    def _end(self) -> None:
        _open.discard(self)
        self._connection.close()

    def _committed(self) -> bool | None:
        """Tell whether it was committed or rolled back; `None` while it is open."""
        try:
            if self._version() != self._before:
                return True
            self._connection.execute("BEGIN IMMEDIATE")
            committed = self._version() != self._before
            self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            return None if "locked" in str(error) or "busy" in str(error) else False
        return committed

    def _version(self) -> int:
        """Return a number that changes with each commit of another connection."""
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version


def wake_after(address: SqliteAddress, after: After) -> None:
    """Do what is to be done once the open transaction of the caller is committed; without a commit, nothing."""
    if not after:
        return
    try:
        CommitWatch(address, after).start()
    except (sqlite3.Error, RuntimeError, MemoryError):
        log.debug("commit_unwatched: a commit cannot be watched; it costs a poll", exc_info=True)


def watched() -> int:
    """Return how many transactions are not known to have ended. For tests."""
    return len(_open)


@atexit.register
def _look_once_more() -> None:
    """Wake workers for a transaction that was committed just before the process ends."""
    for watch in list(_open):
        watch.look()
