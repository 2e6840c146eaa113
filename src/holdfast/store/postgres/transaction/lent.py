"""A store on a connection that its owner lends: each call is a part of the transaction that is open there.

Made for tests whose transaction is rolled back at their end, so that no other connection sees what they wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeVar

import msgspec
import psycopg
from psycopg.pq import TransactionStatus

from ....errors import ConfigError
from ... import foreign
from ...contract import Joined, Opened
from ..connection.caller import PostgresCaller
from ..connection.connect import Connection
from ..connection.errors import translate
from ..store import PostgresStore
from ..url import PostgresAddress, parse
from .join import join

T = TypeVar("T")


class LendPsycopg(Protocol):
    """Calls a function with the lent connection, in the thread that owns it, and returns what it returns."""

    def __call__(self, work: Callable[[psycopg.Connection[Any]], T], /) -> Awaitable[T]: ...


class LentConnection(psycopg.AsyncConnection[Any]):
    """Speaks over the wire of a synchronous connection, whose owner leaves it alone meanwhile."""

    def __init__(self, of: psycopg.Connection[Any]) -> None:
        super().__init__(of.pgconn)
        self.prepare_threshold = None  # names of prepared statements are the other's to give
        self._autocommit = True  # transactions are begun here, where none is open


@contextmanager
def lent(of: psycopg.Connection[Any]) -> Iterator[LentConnection]:
    """Yield the connection for an event loop that runs in the thread of its owner."""
    handlers = of.pgconn.notice_handler, of.pgconn.notify_handler
    view = LentConnection(of)
    try:
        yield view
    finally:
        of.pgconn.notice_handler, of.pgconn.notify_handler = handlers
        del view.pgconn  # so that its end does not close the wire


class LentCaller(PostgresCaller):
    """Calls on a lent connection, each under a savepoint, or in a transaction of its own where none is open."""

    def __init__(self, address: PostgresAddress, lend: LendPsycopg, clock: Callable[[], int] | None) -> None:
        super().__init__(msgspec.structs.replace(address, listen=False, prepare=False), clock)
        self._lend = lend

    async def absent(self) -> str | None:
        return None

    async def open(self) -> None:
        """The connection is open, or its owner opens it."""

    async def close(self) -> None:
        """The connection is its owner's to close."""
        for close in self._to_close:
            await close()

    async def run(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool, patient: bool = True
    ) -> T:
        def do(connection: psycopg.Connection[Any]) -> T:
            with lent(connection) as view:
                return asyncio.run(self._within(view, work))

        return await self._lend(do)

    async def _within(self, view: LentConnection, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        """Do the work, and what the end of its transaction would do; undo it where it fails."""
        alone = view.info.transaction_status == TransactionStatus.IDLE
        await view.execute("BEGIN" if alone else "SAVEPOINT holdfast_call")
        try:
            result = await work(view, False)
            failed = view.info.transaction_status == TransactionStatus.INERROR
            if not failed:
                await self._end_of_transaction(view)
        except psycopg.Error as error:
            await self._undo(view, alone)
            raise translate(error, self.address) from error
        except BaseException:
            await self._undo(view, alone)
            raise
        if failed:  # by an error that the work expects
            await self._undo(view, alone)
        else:
            await view.execute("COMMIT" if alone else "RELEASE SAVEPOINT holdfast_call")
        return result

    async def _end_of_transaction(self, view: LentConnection) -> None:
        """Do what a commit would: see which blockers have ended meanwhile."""
        for mode in ("IMMEDIATE", "DEFERRED"):
            await view.execute(self.named(f"SET CONSTRAINTS holdfast.recheck_blockers {mode}"))

    async def _undo(self, view: LentConnection, alone: bool) -> None:
        await view.execute("ROLLBACK" if alone else "ROLLBACK TO SAVEPOINT holdfast_call")


class LentPostgresStore(PostgresStore):
    """The jobs of a database to which its owner lends a connection."""

    def __init__(self, url: str, lend: LendPsycopg, clock: Callable[[], int] | None = None) -> None:
        super().__init__(url, clock=clock, caller=LentCaller(parse(url), lend, clock))

    def join(self, connection: Any) -> Joined:
        """Return the connection as one that takes in jobs. It is the lent one, or another to the same database."""
        with foreign.django_connection(connection).cursor() as cursor:
            cursor.execute(self.caller.named("SELECT value FROM holdfast.meta WHERE name = 'epoch'"))
            self.caller.epoch = cursor.fetchone()[0]
        return join(self.caller, connection)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        raise ConfigError(foreign.LENT)
