"""A store on a connection that its owner lends: each call is a part of the transaction that is open there.

Made for tests whose transaction is rolled back at their end, so that no other connection sees what they wrote.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol, TypeVar

from ....errors import ConfigError
from ... import foreign
from ...contract import KEEP, Answer, Conflict, NewJob, Opened
from .. import sql
from ..connection.ask import TxWork, Work
from ..connection.thread import ConnectionThread
from ..database import Database
from ..notify import After, follow_up
from ..repair.columns import is_utf8
from ..store import SqliteStore
from ..transition.enqueue import enqueue
from ..url import SqliteAddress, parse_url
from .join import Cursors, plain_text, savepoint

T = TypeVar("T")


class Lend(Protocol):
    """Calls a function with the lent connection, in the thread that owns it, and returns what it returns."""

    def __call__(self, work: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]: ...


class LentDatabase(Database):
    """A database whose work is done on a lent connection, in its transaction."""

    def __init__(self, address: SqliteAddress, lend: Lend, clock: Callable[[], int] | None) -> None:
        super().__init__(address, clock)
        self._lend = lend

    async def _repairing(self, thread: ConnectionThread, whole: Work[T], small: bool, ahead: bool = False) -> T:
        self._cache.clear()  # a rollback may have undone what it knows
        return await self._lend(partial(done, whole))

    async def absent(self) -> str | None:
        return None

    async def open(self) -> None:
        """The connection is open, or its owner opens it."""

    async def close(self) -> None:
        """The connection is its owner's to close."""

    async def repair(self, error: Exception | None = None) -> bool:
        return False


def done(work: Work[T], connection: sqlite3.Connection) -> T:
    """Return what the work returns, done as a part of the open transaction, or in one of its own."""
    after: After = []
    connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
    with plain_text(connection), savepoint(connection):
        result = work(Cursors(connection), after)  # type: ignore[arg-type]  # all that is used of a connection
    follow_up(after)
    return result


class LentSqliteStore(SqliteStore):
    """The jobs of a database to which its owner lends a connection: a file, or memory that only it reaches."""

    def __init__(self, namespace: str, lend: Lend, clock: Callable[[], int] | None = None) -> None:
        url = f"memory://?namespace={namespace}"
        super().__init__(url, clock=clock, database=LentDatabase(parse_url(url), lend, clock))
        self.transactional = True

    def join(self, connection: Any) -> LentJoined:
        """Return the connection as one that takes in jobs. It is the lent one, or another to the same database."""
        return LentJoined(self.database, foreign.django_connection(connection).connection)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        raise ConfigError(foreign.LENT)


class LentJoined:
    """The lent connection in the thread of its owner."""

    def __init__(self, database: Database, connection: sqlite3.Connection) -> None:
        self._database = database
        self._connection = connection

    def enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP) -> list[Answer]:
        """Enqueue jobs in the open transaction."""
        if not jobs:
            return []
        statements = sql.statements(self._database.address.namespace)
        return done(TxWork(statements, self._database.clock, {}, enqueue, (queue, jobs, conflict)), self._connection)
