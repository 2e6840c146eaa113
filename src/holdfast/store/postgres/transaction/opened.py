"""A transaction on one of the store's connections, in which a handler writes and its job is completed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

import psycopg
from psycopg.rows import tuple_row

from ....errors import ConfigError
from ...contract import ENDED, Complete, Session, Settled, Settlement
from ..call.arguments import continuation
from ..call.array import blob
from ..call.replies import settled
from ..connection.caller import PostgresCaller
from ..connection.connect import Connection
from ..connection.errors import is_server_trouble, translate
from .blocking import BlockingConnection, blocking


class PostgresOpened:
    """A transaction in which a handler and the store write together."""

    def __init__(self, caller: PostgresCaller, connection: Connection) -> None:
        self.connection = connection
        self._statement = caller.statement("complete_in_transaction")
        self._now = caller.now()

    def blocking(self) -> AbstractContextManager[BlockingConnection]:
        """Return psycopg's synchronous connection, in the same transaction."""
        return blocking(self.connection)

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """Complete the job as part of the transaction."""
        assert isinstance(settlement, Complete)
        if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise ConfigError(ENDED)
        lease = settlement.lease
        values = {
            "clock": self._now, "session": session.id, "queue": lease.queue, "id": lease.id, "run": lease.run,
            "attempt": lease.attempt, "result": blob(settlement.result), "ttl": settlement.result_ttl_ms,
            "next": continuation(settlement.then),
        }  # fmt: skip
        cursor = psycopg.AsyncCursor(self.connection, row_factory=tuple_row)  # not what the handler has set
        await cursor.execute(self._statement, values)
        row = await cursor.fetchone()
        assert row is not None
        return settled(row[0])


@asynccontextmanager
async def begin(caller: PostgresCaller) -> AsyncIterator[PostgresOpened]:
    """Yield a transaction: committed at the end of the block, rolled back when that raises.

    What leaves the block is the driver's error, but for trouble of the server's, which is ours.
    """
    try:
        async with caller.open_pool().connection() as connection:
            factories = connection.row_factory, connection.cursor_factory
            try:
                async with connection.transaction():
                    yield PostgresOpened(caller, connection)
            finally:
                connection.row_factory, connection.cursor_factory = factories
    except psycopg.Error as error:
        if is_server_trouble(error):
            raise translate(error, caller.address) from error
        raise
