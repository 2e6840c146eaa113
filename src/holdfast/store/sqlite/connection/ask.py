"""Pieces of work, and the connection on which they are done, one at a time."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from traceback import clear_frames
from typing import Any, Generic, TypeVar, TypeVarTuple

from ....errors import StoreError, StoreFull
from ..notify import After
from ..transition.unblock import unblock_dependants
from ..tx import Cache, Tx
from ..url import SqliteAddress
from .connection import connect, wait_for_lock_here
from .error import translate
from .wal import WriteAheadLog

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Work = Callable[[sqlite3.Connection, After], T]


def system_ms() -> int:
    """Return the time of this machine, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Ask:
    """A piece of work, and what became of it."""

    __slots__ = ("after", "ahead", "error", "left_long_log", "result", "work")

    def __init__(self, work: Work[Any], ahead: bool = False) -> None:
        self.work = work
        self.ahead = ahead
        """Its result may be known before it is on the disk; what is in `after` may not."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.after: After = []
        self.left_long_log = False
        """The log should be made short now."""


class TxWork(Generic[T, *Ts]):
    """Work in a `Tx` of its own, with its values; the runs that it unblocked follow at its end."""

    __slots__ = ("_cache", "_clock", "_sql", "_values", "_work")

    def __init__(
        self,
        sql: dict[str, dict[str, str]],
        clock: Callable[[], int],
        cache: Cache,
        work: Callable[[Tx, *Ts], T],
        values: tuple[*Ts],
    ) -> None:
        self._sql = sql
        self._clock = clock
        self._cache = cache
        self._work = work
        self._values = values

    def __call__(self, connection: sqlite3.Connection, after: After) -> T:
        tx = Tx(connection, self._sql, self._clock(), self._cache, after)
        result = self._work(tx, *self._values)
        if tx.dependants:
            unblock_dependants(tx)
        return result


class WorkConnection:
    """A connection that writes, or reads, for whoever holds `using`."""

    def __init__(self, address: SqliteAddress, *, writes: bool) -> None:
        self.address = address
        self.writes = writes
        self.using = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        self.log = WriteAheadLog(address)

    def open(self, connection: sqlite3.Connection | None = None) -> None:
        """Open the connection, or take a given one."""
        self.connection = connection or connect(self.address)
        if self.writes:
            wait_for_lock_here(self.connection)
        if self.writes and self.address.flushes:  # `disk.LogFlush` does it, behind the commit
            self.connection.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Close the connection, once it is not in use."""
        with self.using:
            if self.connection is not None:
                self.connection.close()
                self.connection = None
            self.log.close()

    def do_alone(self, ask: Ask, connection: sqlite3.Connection) -> None:
        """Do a piece of work in a transaction that it has alone; one that writes has begun."""
        try:
            if not self.writes:
                connection.execute("BEGIN")
            self.do(ask, connection)
            connection.execute("ROLLBACK" if ask.error else "COMMIT")
        except BaseException as error:
            self.undo([ask], error, connection)

    def do_under_savepoint(self, ask: Ask, connection: sqlite3.Connection) -> None:
        """Do a piece of work among others of one transaction; one that raises undoes only itself."""
        connection.execute("SAVEPOINT ask")
        self.do(ask, connection)
        if ask.error is not None:
            connection.execute("ROLLBACK TO ask")
        connection.execute("RELEASE ask")

    def do(self, ask: Ask, connection: sqlite3.Connection) -> None:
        """Do a piece of work, and keep what it returns or raises."""
        try:
            ask.result = ask.work(connection, ask.after)
        except sqlite3.Error as error:
            # A cursor that failed half-way keeps its view of the store, and the log behind it, while a frame has it.
            clear_frames(error.__traceback__)
            ask.error = translate(error, self.address)
            ask.error.__cause__ = error
            if isinstance(ask.error, StoreFull):
                self.log.relieve()
            if self.writes and not connection.in_transaction:
                raise
        except BaseException as error:
            ask.error = error

    def undo(self, asks: Sequence[Ask], error: BaseException, connection: sqlite3.Connection) -> None:
        """Roll a transaction back, and give each piece of work of it the error."""
        ours: BaseException = error
        if isinstance(error, sqlite3.Error):
            ours = translate(error, self.address)
        if isinstance(ours, StoreFull):
            self.log.relieve()
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as worse:
                ours = StoreError(f"{self.address}: {error}; and rolling back failed: {worse}")
        for ask in asks:
            ask.error = ask.error or ours
