"""A transaction on a connection of its own, in which a handler writes and its job is completed."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any

from ....core.transition import Reply
from ....errors import ConfigError
from ...contract import ENDED, Session, Settled, Settlement
from .. import sql
from ..connection.connection import connect
from ..connection.error import is_trouble, translate, translated
from ..notify import After, follow_up
from ..transition.session import is_alive
from ..transition.settle import settle, wake_for_freed
from ..transition.unblock import unblock_dependants
from ..tx import Tx
from ..url import SqliteAddress


class SqliteOpened:
    """What a handler and the store do together."""

    def __init__(self, connection: sqlite3.Connection, address: SqliteAddress, clock: Callable[[], int]) -> None:
        self.connection = connection
        self.after: After = []
        self._address = address
        self._clock = clock

    def blocking(self) -> AbstractContextManager[Any]:
        """Return the connection itself, which any thread may use, one at a time."""
        return nullcontext(self.connection)

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """Settle an attempt, as part of the transaction."""
        if not self.connection.in_transaction:
            raise ConfigError(ENDED)
        self.connection.row_factory = None  # whatever the handler has set
        self.connection.text_factory = str
        tx = Tx(self.connection, sql.statements(self._address.namespace), self._clock(), {}, self.after)
        with translated(self._address):
            if not is_alive(tx, session):
                return Settled(Reply.STALE)
            (settled,) = settle(tx, session, [settlement])
            unblock_dependants(tx)
            wake_for_freed(tx, [settlement])
        return settled


@asynccontextmanager
async def opened(address: SqliteAddress, clock: Callable[[], int]) -> AsyncIterator[SqliteOpened]:
    """Yield a transaction that has the write lock: committed at the end of the block, rolled back when that raises.

    What leaves the block is the driver's error, but for trouble of the file's, which is ours.
    """
    connection = await asyncio.to_thread(connect, address)
    try:
        await _begin(connection, address)
        transaction = SqliteOpened(connection, address, clock)
        yield transaction
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if is_trouble(error):
            raise translate(error, address) from error
        raise
    finally:
        with suppress(sqlite3.Error):  # the handler may have ended it
            connection.rollback()  # a connection that is closed goes on while somebody keeps a cursor, and its lock too
        connection.close()
    follow_up(transaction.after)


async def _begin(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    """Take the write lock. It is waited for here, not in SQLite, which would stop the event loop."""
    deadline = time.monotonic() + address.busy_timeout
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.Error as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise translate(error, address) from error
        await asyncio.sleep(random.uniform(0.001, 0.01))
    connection.execute(f"PRAGMA busy_timeout = {round(address.busy_timeout * 1000)}")
