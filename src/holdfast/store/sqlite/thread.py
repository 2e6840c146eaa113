"""One thread, one connection: whatever is asked of it at the same time shares a transaction."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from traceback import clear_frames
from typing import Any, TypeVar

from ...errors import StoreClosed, StoreError, StoreFull
from .connection import Place, connect, translate
from .log import EVERYTHING, WriteAheadLog

log = logging.getLogger("holdfast")
T = TypeVar("T")
After = list[Callable[[], None]]
Work = Callable[[sqlite3.Connection, After], T]
MOST_IN_ONE_COMMIT = 256


class Ask:
    """A piece of work, and what became of it."""

    __slots__ = ("after", "error", "result", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.after: After = []


class Awaited(Ask):
    """A piece of work for the thread, and the future that hears of it."""

    __slots__ = ("future", "loop")

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(work)
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class ConnectionThread:
    """Runs work on its own connection, in the order in which it came.

    A writer takes all that waits into one transaction (group commit): each piece stands under a
    savepoint, so that one that raises undoes only itself. Nobody hears of success before the commit.

    Small work that comes alone, while nobody else is at it, is done at once in the caller's thread: two changes
    of thread would cost three times as much. It never waits there, neither for a lock nor for the disk.
    """

    def __init__(self, place: Place, *, writes: bool) -> None:
        self._place = place
        self._writes = writes
        self._inbox: deque[Awaited] = deque()
        self._signal = threading.Condition(threading.Lock())
        self._starting = threading.Lock()
        self._using = threading.Lock()
        self._at_it = 0
        self._waits_for_disk = place.path is not None and place.synchronous not in ("OFF", "NORMAL")
        self._closing = False
        self._thread: threading.Thread | None = None
        self.connection: sqlite3.Connection | None = None
        self.log = WriteAheadLog(place)

    def start(self, connection: sqlite3.Connection | None = None) -> None:
        """The connection is open and its schema current. A second call changes nothing."""
        with self._starting:
            if self._thread is not None:
                return
            self.connection = connection or connect(self._place)
            self._closing = False
            name = f"holdfast-{'writer' if self._writes else 'reader'}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    async def ask(self, work: Work[T], *, small: bool = False) -> T:
        """Return what the work returned, once it is committed. What it put into `after` runs then, too."""
        if small and (done := self._at_once(work)) is not None:
            await self._let_others_run()
            if done.error is not None:
                raise done.error
            known: T = done.result
            return known
        loop = asyncio.get_running_loop()
        ask = Awaited(work, loop)
        with self._signal:
            if self._closing or self._thread is None:
                raise StoreClosed(f"{self._place} is closed; open the app first (async with app: ...)")
            self._inbox.append(ask)
            if len(self._inbox) == 1:
                self._signal.notify()
        result: T = await ask.future
        return result

    async def _let_others_run(self) -> None:
        """The loop has gone round once; whoever came meanwhile shared a commit in the thread."""
        with self._signal:
            self._at_it += 1
        try:
            await asyncio.sleep(0)
        finally:
            with self._signal:
                self._at_it -= 1

    def _at_once(self, work: Work[Any]) -> Ask | None:
        """Return the work, done here and now; `None` when it has to wait for its turn."""
        if self._at_it or self._inbox or self._waits_for_disk or not self._using.acquire(blocking=False):
            return None
        try:
            if self._closing or self.connection is None or (self._writes and not self._lock_at_once()):
                return None
            ask = Ask(work)
            self._finish(ask, self.connection)
        finally:
            self._using.release()
        if ask.error is None:
            follow_up(ask.after)
        return ask

    def _lock_at_once(self) -> bool:
        """True when a transaction has begun; somebody else's lock is waited for in the thread, not here."""
        assert self.connection is not None
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.log.admit(EVERYTHING)
            self.connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, StoreFull):
            return False
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {round(self._place.busy_timeout * 1000)}")
        return True

    def _finish(self, ask: Ask, connection: sqlite3.Connection) -> None:
        try:
            if not self._writes:
                connection.execute("BEGIN")
            self._do(ask, connection)
            connection.execute("ROLLBACK" if ask.error else "COMMIT")
        except BaseException as error:
            self._undo([ask], error, connection)
        if self._writes and self.log.is_due():
            with self._signal:
                self._signal.notify()  # the thread makes it short, whose business it is to wait for the disk

    def stop(self) -> None:
        """Everything that was asked is done, and the connection closed."""
        with self._signal:
            self._closing = True
            self._signal.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._using:
            if self.connection is not None:
                self.connection.close()
                self.connection = None
            self.log.close()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            with self._using:
                if self._writes:
                    self._write(batch)
                else:
                    self._read(batch)
            for ask in batch:
                if ask.error is None:
                    follow_up(ask.after)
            _report(batch)
            if self._writes and self.log.is_due():
                self._shorten()

    def _shorten(self) -> None:
        """The log is short again, if it can be; whoever was in the batch has heard before."""
        with self._using:
            if self.connection is not None:
                self.log.shorten(self.connection)

    def _next(self) -> list[Awaited] | None:
        """Return what waits, nothing when only the log is too long, or `None` at the end."""
        with self._signal:
            while not self._inbox:
                if self._closing:
                    return None
                pause = self.log.wait() if self._writes else None
                if pause == 0:
                    return []
                self._signal.wait(pause)
            most = min(len(self._inbox), MOST_IN_ONE_COMMIT)
            return [self._inbox.popleft() for _ in range(most)]

    def _read(self, batch: list[Awaited]) -> None:
        """Each look is at one state of the store, and at no older one than it has to be: the log grows meanwhile."""
        assert self.connection is not None
        for ask in batch:
            self._finish(ask, self.connection)

    def _write(self, batch: list[Awaited]) -> None:
        connection = self.connection
        assert connection is not None
        if not batch:
            return
        try:
            self.log.admit(EVERYTHING)
            connection.execute("BEGIN IMMEDIATE")
            if len(batch) == 1:
                self._do(batch[0], connection)
                connection.execute("ROLLBACK" if batch[0].error else "COMMIT")
            else:
                for ask in batch:
                    self._do_under_savepoint(ask, connection)
                connection.execute("COMMIT")
        except BaseException as error:
            self._undo(batch, error, connection)

    def _do_under_savepoint(self, ask: Ask, connection: sqlite3.Connection) -> None:
        connection.execute("SAVEPOINT ask")
        self._do(ask, connection)
        if ask.error is not None:
            connection.execute("ROLLBACK TO ask")
        connection.execute("RELEASE ask")

    def _do(self, ask: Ask, connection: sqlite3.Connection) -> None:
        try:
            ask.result = ask.work(connection, ask.after)
        except sqlite3.Error as error:
            # A cursor that failed half-way keeps its view of the store, and the log behind it, while a frame has it.
            clear_frames(error.__traceback__)
            ask.error = translate(error, self._place)
            ask.error.__cause__ = error
            if isinstance(ask.error, StoreFull):
                self.log.relieve()
            if self._writes and not connection.in_transaction:
                raise
        except BaseException as error:
            ask.error = error

    def _undo(self, batch: Sequence[Ask], error: BaseException, connection: sqlite3.Connection) -> None:
        """Nothing of the batch was written, and everybody in it hears why."""
        ours: BaseException = error
        if isinstance(error, sqlite3.Error):
            ours = translate(error, self._place)
        if isinstance(ours, StoreFull):
            self.log.relieve()
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as worse:
                ours = StoreError(f"{self._place}: {error}; and rolling back failed: {worse}")
        for ask in batch:
            ask.error = ask.error or ours


def follow_up(after: After) -> None:
    """Whoever should hear of the commit has heard; what goes wrong there must not end the thread."""
    for each in after:
        try:
            each()
        except Exception:
            log.exception("a wake-up failed; it costs a poll")


def _report(batch: list[Awaited]) -> None:
    """Every future hears of its result in its own loop, with one wake-up for each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Awaited]] = {}
    for ask in batch:
        loops.setdefault(ask.loop, []).append(ask)
    for loop, asks in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, asks)
        except RuntimeError:
            continue  # the loop is closed: nobody listens any more


def _resolve(asks: list[Awaited]) -> None:
    for ask in asks:
        if ask.future.done():
            continue
        if ask.error is not None:
            ask.future.set_exception(ask.error)
        else:
            ask.future.set_result(ask.result)
