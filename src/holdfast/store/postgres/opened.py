"""A transaction on one of the store's connections, in which a handler writes and its job is completed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
from psycopg.rows import tuple_row

from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError
from ..contract import ENDED, Complete, Session, Settled, Settlement
from . import sql
from .array import blob
from .call import continuation
from .connection import Connection, Place, Pool, is_trouble, translate

COMPLETE = "SELECT holdfast.join_complete(%s::bigint, %s, %s, %s, %s::bigint, %s::integer, %s::bytea, %s::bigint, %s)"


class PostgresOpened:
    """What a handler and the store do together."""

    def __init__(self, connection: Connection, schema: str, now: str | None) -> None:
        self.connection = connection
        self._statement = sql.rename(COMPLETE, schema)
        self._now = now

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """The completion has its word, as part of the transaction."""
        assert isinstance(settlement, Complete)
        if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise ConfigError(ENDED)
        lease = settlement.lease
        cursor = psycopg.AsyncCursor(self.connection, row_factory=tuple_row)  # whatever the handler has set
        await cursor.execute(
            self._statement,
            (
                self._now, session.id, lease.queue, lease.id, lease.run, lease.attempt, blob(settlement.result),
                settlement.result_ttl_ms, continuation(settlement.then),
            ),
        )  # fmt: skip
        row = await cursor.fetchone()
        assert row is not None
        reply, _, state = row[0].partition(":")
        return Settled(Reply(reply), State(state) if state else None)


@asynccontextmanager
async def opened(pool: Pool, place: Place, now: Callable[[], str | None]) -> AsyncIterator[PostgresOpened]:
    """Yield a transaction: committed at the end of the block, rolled back when that raises.

    What leaves the block is the driver's error, but for trouble of the server's, which is ours.
    """
    try:
        async with pool.connection() as connection:
            factories = connection.row_factory, connection.cursor_factory
            try:
                async with connection.transaction():
                    yield PostgresOpened(connection, place.schema, now())
            finally:
                connection.row_factory, connection.cursor_factory = factories
    except psycopg.Error as error:
        if is_trouble(error):
            raise translate(error, place) from error
        raise
