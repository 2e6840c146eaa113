"""One thread, one connection: whatever is asked of it at the same time shares a transaction."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import StoreClosed, StoreError
from .connection import Place, connect, translate

log = logging.getLogger("holdfast")
T = TypeVar("T")
After = list[Callable[[], None]]
Work = Callable[[sqlite3.Connection, After], T]
MOST_IN_ONE_COMMIT = 256


class Ask:
    """A piece of work and the future that hears of it."""

    __slots__ = ("after", "error", "future", "loop", "result", "work")

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.loop = loop
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None
        self.after: After = []


class ConnectionThread:
    """Runs work on its own connection, in the order in which it came.

    A writer takes all that waits into one transaction (group commit): each piece stands under a
    savepoint, so that one that raises undoes only itself. Nobody hears of success before the commit.
    """

    def __init__(self, place: Place, *, writes: bool) -> None:
        self._place = place
        self._writes = writes
        self._inbox: deque[Ask] = deque()
        self._signal = threading.Condition(threading.Lock())
        self._starting = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.connection: sqlite3.Connection | None = None

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

    async def ask(self, work: Work[T]) -> T:
        """Return what the work returned, once it is committed. What it put into `after` runs then, too."""
        loop = asyncio.get_running_loop()
        ask = Ask(work, loop, loop.create_future())
        with self._signal:
            if self._closing or self._thread is None:
                raise StoreClosed(f"{self._place} is closed; open the app first (async with app: ...)")
            self._inbox.append(ask)
            if len(self._inbox) == 1:
                self._signal.notify()
        result: T = await ask.future
        return result

    def stop(self) -> None:
        """Everything that was asked is done, and the connection closed."""
        with self._signal:
            self._closing = True
            self._signal.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _run(self) -> None:
        while batch := self._next():
            if self._writes:
                self._write(batch)
            else:
                self._read(batch)
            for ask in batch:
                if ask.error is None:
                    _follow_up(ask.after)
            _report(batch)

    def _next(self) -> list[Ask]:
        with self._signal:
            while not self._inbox and not self._closing:
                self._signal.wait()
            most = min(len(self._inbox), MOST_IN_ONE_COMMIT)
            return [self._inbox.popleft() for _ in range(most)]

    def _read(self, batch: list[Ask]) -> None:
        connection = self.connection
        assert connection is not None
        try:
            connection.execute("BEGIN")  # one look is at one state of the store, however many statements it takes
            for ask in batch:
                self._do(ask, connection)
            connection.execute("COMMIT")
        except BaseException as error:
            self._undo(batch, error, connection)

    def _write(self, batch: list[Ask]) -> None:
        connection = self.connection
        assert connection is not None
        try:
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
            ask.error = translate(error, self._place)
            ask.error.__cause__ = error
            if self._writes and not connection.in_transaction:
                raise
        except BaseException as error:
            ask.error = error

    def _undo(self, batch: list[Ask], error: BaseException, connection: sqlite3.Connection) -> None:
        """Nothing of the batch was written, and everybody in it hears why."""
        ours: BaseException = error
        if isinstance(error, sqlite3.Error):
            ours = translate(error, self._place)
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as worse:
                ours = StoreError(f"{self._place}: {error}; and rolling back failed: {worse}")
        for ask in batch:
            ask.error = ask.error or ours


def _follow_up(after: After) -> None:
    """Whoever should hear of the commit has heard; what goes wrong there must not end the thread."""
    for each in after:
        try:
            each()
        except Exception:
            log.exception("a wake-up failed; it costs a poll")


def _report(batch: list[Ask]) -> None:
    """Every future hears of its result in its own loop, with one wake-up for each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Ask]] = {}
    for ask in batch:
        loops.setdefault(ask.loop, []).append(ask)
    for loop, asks in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, asks)
        except RuntimeError:
            continue  # the loop is closed: nobody listens any more


def _resolve(asks: list[Ask]) -> None:
    for ask in asks:
        if ask.future.done():
            continue
        if ask.error is not None:
            ask.future.set_exception(ask.error)
        else:
            ask.future.set_result(ask.result)
