"""Bring commits to the disk, many by one flush, while the next ones are made (`synchronous=full`).

SQLite's own FULL flushes the write-ahead log inside each commit, which the writer would have to wait for. So the writer
commits as at NORMAL, and this thread flushes the log behind it. No producer is answered, and no waiter hears of an end,
before the flush that followed the commit: the log is written in the order of commits, so one flush has all before it.

A worker's turn is answered before, as long as the flush of the turn before it is done: what the worker learns from it
dies with the machine, as the worker does, so that a loss of power costs what ran at that moment, as ever.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ....errors import StoreError
from ....log import with_logger
from ..notify import After, follow_up
from ..url import SqliteAddress
from .ask import Ask

A = TypeVar("A", bound=Ask)
log = logging.getLogger("holdfast")
_flush = getattr(os, "fdatasync", os.fsync)


class LogFlush(Generic[A]):
    """Flushes the log for the work that waits for it, and hands that work on."""

    def __init__(self, address: SqliteAddress, hand_on: Callable[[Sequence[A]], None]) -> None:
        self._address = address
        self._hand_on = hand_on
        self._signal = threading.Condition(threading.Lock())
        self._waiting: list[A] = []
        self._answered: list[After] = []
        """What follows upon work that was answered already."""
        self._ahead = False
        """Some work was answered before its flush, which is not done yet."""
        self._closing = False
        self._file: int | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._closing = False
        self._thread = threading.Thread(target=with_logger(self._run), name="holdfast-flush", daemon=True)
        self._thread.start()

    def put(self, asks: Sequence[A]) -> None:
        """Hand this work on once the log is on the disk as far as it is written now."""
        with self._signal:
            self._waiting += asks
            self._signal.notify()

    def put_answered(self, ask: Ask) -> bool:
        """Flush for work that may be answered now; return False when that must wait, since other work is ahead."""
        with self._signal:
            if self._ahead:
                return False
            self._ahead = True
            self._answered.append(ask.after)
            self._signal.notify()
            return True

    def stop(self) -> None:
        """Flush what waits, and end the thread."""
        with self._signal:
            self._closing = True
            self._signal.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _run(self) -> None:
        while True:
            with self._signal:
                while not (self._waiting or self._answered or self._closing):
                    self._signal.wait()
                asks, self._waiting = self._waiting, []
                answered, self._answered = self._answered, []
            if not asks and not answered:
                return
            self._finish(asks, answered)

    def _finish(self, asks: Sequence[A], answered: Sequence[After]) -> None:
        """Flush, and do what follows upon it."""
        error = self._flushed() if answered or any(ask.error is None for ask in asks) else None
        with self._signal:
            self._ahead = bool(self._answered)
        for ask in asks:
            ask.error = ask.error or error
        if error is None:
            for after in answered:
                follow_up(after)
        elif answered:
            log.error("flush_failed: %s; ends of jobs may be lost with the power, which then run again", error)
        self._hand_on(asks)

    def _flushed(self) -> StoreError | None:
        """Flush the log; return what went wrong."""
        try:
            if self._file is None:  # closing it drops no lock of SQLite's: those are on the -shm file
                self._file = os.open(f"{self._address.path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            _flush(self._file)
        except OSError as error:
            return StoreError(
                f"{self._address}: what was written may not be on the disk ({error}); see to it, and ask again"
            )
        return None
