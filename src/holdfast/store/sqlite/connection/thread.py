"""One thread, one connection: whatever is asked of it at the same time shares a transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

from ....errors import StoreClosed
from ....log import with_logger
from ..notify import follow_up
from ..url import SqliteAddress
from .ask import Ask, Work, WorkConnection
from .at_once import at_once
from .connection import begin
from .disk import LogFlush
from .wal import EVERYTHING, WriteAheadLog

T = TypeVar("T")
MOST_IN_ONE_COMMIT = 256


class Awaited(Ask):
    """A piece of work for the thread, and the future that hears of it."""

    __slots__ = ("future", "loop")

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop, ahead: bool = False) -> None:
        super().__init__(work, ahead)
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class ConnectionThread:
    """Runs work on its own connection, in the order in which it came.

    A writer takes all that waits into one transaction (group commit): each piece stands under a
    savepoint, so that one that raises undoes only itself. Success is reported after the commit.

    Small work that comes alone, while nothing else is under way, is done at once in the caller's thread (`at_once`).
    """

    def __init__(self, address: SqliteAddress, *, writes: bool) -> None:
        self._address = address
        self._on = WorkConnection(address, writes=writes)
        self._inbox: deque[Awaited] = deque()
        self._signal = threading.Condition(threading.Lock())
        self._starting = threading.Lock()
        self._under_way = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._flush = LogFlush(address, _hand_on) if writes and address.flushes else None

    @property
    def connection(self) -> sqlite3.Connection | None:
        """The connection, while it is open."""
        return self._on.connection

    @property
    def log(self) -> WriteAheadLog:
        """The write-ahead log of the file."""
        return self._on.log

    def start(self, connection: sqlite3.Connection | None = None) -> None:
        """Open the connection and start the thread, unless that was done before."""
        with self._starting:
            if self._thread is not None:
                return
            self._on.open(connection)
            self._closing = False
            if self._flush is not None:
                self._flush.start()
            name = f"holdfast-{'writer' if self._on.writes else 'reader'}"
            self._thread = threading.Thread(target=with_logger(self._run), name=name, daemon=True)
            self._thread.start()

    async def ask(self, work: Work[T], *, small: bool = False, ahead: bool = False) -> T:
        """Return what the work returned, once it is committed, and where that is wanted on the disk.

        What it put into `after` runs then, too. `ahead`: the result may be known once it is committed.
        """
        if small and not self._is_busy() and (done := at_once(self._on, work)) is not None:
            done.ahead = ahead
            known: T = await self._answer(done)
            return known
        loop = asyncio.get_running_loop()
        ask = Awaited(work, loop, ahead)
        with self._signal:
            if self._closing or self._thread is None:
                raise StoreClosed(f"{self._address} is closed; open the app first (async with app: ...)")
            self._inbox.append(ask)
            if len(self._inbox) == 1:
                self._signal.notify()
        result: T = await ask.future
        return result

    async def _answer(self, done: Ask) -> Any:
        """Return what work that was done at once returned; calls that come meanwhile share a commit in the thread."""
        with self._signal:
            self._under_way += 1
            if done.left_long_log:
                self._signal.notify()  # the thread makes it short, whose business it is to wait for the disk
        try:
            await (_gone_round(done) if self._flush is None else self._flushed(done, self._flush))
        finally:
            with self._signal:
                self._under_way -= 1
        if done.error is not None:
            raise done.error
        return done.result

    async def _flushed(self, done: Ask, flush: LogFlush[Awaited]) -> None:
        """Wait until the work is on the disk, or until that may be waited for later."""
        if done.error is not None or (done.ahead and flush.put_answered(done)):
            await asyncio.sleep(0)
            return
        awaited = Awaited(done.work, asyncio.get_running_loop())
        awaited.after = done.after
        flush.put([awaited])
        await awaited.future

    def _is_busy(self) -> bool:
        return bool(self._under_way or self._inbox or self._closing)

    def stop(self) -> None:
        """Do everything that was asked for, and close the connection."""
        with self._signal:
            self._closing = True
            self._signal.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            if self._flush is not None:
                self._flush.stop()
        self._on.close()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            with self._on.using:
                if self._on.writes:
                    self._write(batch)
                else:
                    self._read(batch)
            if self._flush is None:
                _hand_on(batch)
            else:
                answered = [ask for ask in batch if ask.ahead and not ask.error and self._flush.put_answered(ask)]
                _report(answered)
                self._flush.put([ask for ask in batch if ask not in answered])
            if self._on.writes and self._on.log.is_due():
                self._shorten()

    def _shorten(self) -> None:
        """Make the log short again, if that can be done; the batch has been reported before."""
        with self._on.using:
            if self._on.connection is not None:
                self._on.log.shorten(self._on.connection)

    def _next(self) -> list[Awaited] | None:
        """Return what waits, nothing when only the log is too long, or `None` at the end."""
        with self._signal:
            while not self._inbox:
                if self._closing:
                    return None
                pause = self._on.log.wait() if self._on.writes else None
                if pause == 0:
                    return []
                self._signal.wait(pause)
            most = min(len(self._inbox), MOST_IN_ONE_COMMIT)
            return [self._inbox.popleft() for _ in range(most)]

    def _read(self, batch: list[Awaited]) -> None:
        """Each look is at one state of the store, and at no older one than it has to be: the log grows meanwhile."""
        assert self._on.connection is not None
        for ask in batch:
            self._on.do_alone(ask, self._on.connection)

    def _write(self, batch: list[Awaited]) -> None:
        """Do a batch in one transaction."""
        connection = self._on.connection
        assert connection is not None
        if not batch:
            return
        try:
            self._on.log.admit(EVERYTHING)
            begin(connection, self._address)
            if len(batch) == 1:
                self._on.do_alone(batch[0], connection)
            else:
                for ask in batch:
                    self._on.do_under_savepoint(ask, connection)
                connection.execute("COMMIT")
        except BaseException as error:
            self._on.undo(batch, error, connection)


async def _gone_round(done: Ask) -> None:
    """Do what follows upon the commit, and let the loop go round once."""
    if done.error is None:
        follow_up(done.after)
    await asyncio.sleep(0)


def _hand_on(batch: Sequence[Awaited]) -> None:
    """Do what follows upon a commit, and report each piece of work to whoever asked for it."""
    for ask in batch:
        if ask.error is None:
            follow_up(ask.after)
    _report(batch)


def _report(batch: Sequence[Awaited]) -> None:
    """Set the future of each piece of work in its own loop, with one wake-up for each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Awaited]] = {}
    for ask in batch:
        loops.setdefault(ask.loop, []).append(ask)
    for loop, asks in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, asks)
        except RuntimeError:
            continue  # the loop is closed, and with it the caller


def _resolve(asks: list[Awaited]) -> None:
    for ask in asks:
        if ask.future.done():
            continue
        if ask.error is not None:
            ask.future.set_exception(ask.error)
        else:
            ask.future.set_result(ask.result)
