"""The write-ahead log beside the file: how long it may get, and how it is made short again."""

from __future__ import annotations

import logging
import os
import sqlite3
import time

from ....errors import StoreFull
from ..url import SqliteAddress
from .connection import wait_for_lock_here
from .lock_owner import lock_owners

log = logging.getLogger("holdfast")
LONG = 16 * 1024 * 1024
"""Bytes from which on the log is made short. Sooner is slower, measured; later is a longer log."""
SPARE = 2
"""A file of so many times `LONG` is cut; a shorter one is written over from its start, which costs less."""
LOG_HEADER, FRAME_HEADER = 32, 24
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
STEP = LONG // 4
"""After so many bytes more it is tried again, whatever the pause: who writes fast must not wait for a clock."""
FIRST_WAIT_MS, LONGEST_WAIT_MS = 20, 500
"""For how long one try waits, first for the write lock and then, holding it, for readers; twice as long each time."""
NEW_JOBS, EVERYTHING = 1, 2
"""At how many times its limit the log takes in no new jobs, and nothing at all."""
WARN_AFTER = 10.0
WARN_EVERY = 60.0


class WriteAheadLog:
    """The `-wal` file of a database, which all its processes share.

    A reader sees one state of the store for as long as its transaction lasts, and SQLite keeps all that was written
    since then in the log. So the log is as long as `LONG`, and what is written while the slowest reader reads. One who
    stays is named in a warning; from `wal_limit` on no jobs are taken in, and from twice that on nothing is written.
    """

    def __init__(self, address: SqliteAddress) -> None:
        self._address = address
        self._path = f"{address.path}-wal"
        self._file: int | None = None
        self._known = 0
        self._warned = float("-inf")
        self._forget()

    def _forget(self) -> None:
        """Forget what was in the way: the log is short."""
        self._long = LONG
        self._pause = self._next_try = 0.0
        self._wait_ms = FIRST_WAIT_MS
        self._tried_at = 0
        self._taken_in = -1
        self._stuck_since: float | None = None

    # --- how long it is

    def size(self) -> int:
        """Return the bytes of the file; 0 when there is none."""
        if self._address.path is None:
            return 0
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def wait(self) -> float | None:
        """Return in how many seconds the log should be made short; `None` when it is short."""
        self._known = self.size()
        if self._known < self._long or not (self._known > SPARE * LONG or self._is_written_to(self._long)):
            if self._pause:
                self._forget()
            return None
        if self._known >= self._tried_at + STEP:
            return 0.0
        return max(0.0, self._next_try - time.monotonic())

    def is_due(self) -> bool:
        """True when the log should be made short now."""
        return self.wait() == 0

    def _is_written_to(self, offset: int) -> bool:
        """True when the log reaches so far. What is behind its end is from before it began anew, with another salt."""
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            frame = FRAME_HEADER + int.from_bytes(os.pread(self._file, 4, 8), "big")
            start = LOG_HEADER + max(0, (offset - LOG_HEADER) // frame - 1) * frame
            return os.pread(self._file, 8, start + 8) == os.pread(self._file, 8, 16)
        except OSError:
            return True

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    # --- what is done about it

    def admit(self, times: int) -> None:
        """Raise when the log has grown to so many times its limit: `NEW_JOBS`, or `EVERYTHING`."""
        limit = times * self._address.wal_limit
        if self._known >= min(LONG, limit) and (size := self.size()) >= limit:
            refused = "no new jobs are taken in" if times == NEW_JOBS else "nothing is written"
            raise StoreFull(
                f"{self._path} has {size / 1e6:,.1f} MB, and from {times} x wal_limit={self._address.wal_limit} on "
                f"{refused}: {self._blame()}; end it, and the log shrinks by itself"
            )

    def relieve(self) -> None:
        """Have the log made short however short it is, because the disk is full."""
        self._long = LOG_HEADER + 1

    def shorten(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file and begin it anew, unless a reader is in the way."""
        try:
            if self._take_in(connection) and self._cut(connection):
                self._forget()
                return
        except sqlite3.Error as error:
            self._warn(
                "wal_not_shortened: %s could not be taken into the file, the next try may be better: %s",
                self._path,
                error,
            )
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self._next_try = time.monotonic() + self._pause
        self._tried_at = self.size()
        self._complain()

    def _take_in(self, connection: sqlite3.Connection) -> bool:
        """Copy the log into the file as far as readers allow, while others write. False when a reader stays."""
        _, frames, taken_in = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        before, self._taken_in = self._taken_in, taken_in
        return bool(taken_in >= frames or taken_in != before)

    def _cut(self, connection: sqlite3.Connection) -> bool:
        """Copy the rest, and begin the log anew. Readers may finish, for a moment, in which nothing is written."""
        full = self._long < LONG or self.size() > SPARE * LONG
        connection.execute(f"PRAGMA busy_timeout = {self._wait_ms}")
        self._wait_ms = min(LONGEST_WAIT_MS, 2 * self._wait_ms)
        try:
            statement = f"PRAGMA wal_checkpoint({'TRUNCATE' if full else 'RESTART'})"
            busy, _, _ = connection.execute(statement).fetchone()
        finally:
            wait_for_lock_here(connection)
        return not busy

    def _complain(self) -> None:
        """Warn of a log that has been long for a while, and name the processes that keep it so."""
        now = time.monotonic()
        if self._stuck_since is None:
            self._stuck_since = now
        if now - self._stuck_since >= WARN_AFTER:
            self._warn(
                "wal_stuck: %s has %.0f MB and cannot be made short: %s", self._path, self.size() / 1e6, self._blame()
            )

    def _blame(self) -> str:
        readers = lock_owners(str(self._address.path), "reader")
        return f"{' or '.join(readers) or 'a process'} reads an old state of the file in a transaction that stays open"

    def _warn(self, text: str, *values: object) -> None:
        now = time.monotonic()
        if now - self._warned >= WARN_EVERY:
            self._warned = now
            log.warning(text, *values)
