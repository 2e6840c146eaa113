"""A transaction on a connection of its own, in which a handler writes and its job is completed."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ...core.transition import Reply
from ...errors import ConfigError
from ..contract import ENDED, Session, Settled, Settlement
from . import sql
from .connection import Place, connect, is_trouble, translate, translated
from .end import release
from .session import pass_on
from .settle import is_alive, settle
from .thread import After, follow_up
from .tx import Tx


class SqliteOpened:
    """What a handler and the store do together."""

    def __init__(self, connection: sqlite3.Connection, place: Place, clock: Callable[[], int]) -> None:
        self.connection = connection
        self.after: After = []
        self._place = place
        self._clock = clock

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """The settlement has its word, as part of the transaction."""
        if not self.connection.in_transaction:
            raise ConfigError(ENDED)
        self.connection.row_factory = None  # whatever the handler has set
        self.connection.text_factory = str
        tx = Tx(self.connection, sql.statements(self._place.namespace), self._clock(), {}, self.after)
        with translated(self._place):
            if not is_alive(tx, session):
                return Settled(Reply.STALE)
            (settled,) = settle(tx, session, [settlement])
            release(tx)
            pass_on(tx, [settlement])
        return settled


@asynccontextmanager
async def opened(place: Place, clock: Callable[[], int]) -> AsyncIterator[SqliteOpened]:
    """Yield a transaction that has the write lock: committed at the end of the block, rolled back when that raises.

    What leaves the block is the driver's error, but for trouble of the file's, which is ours.
    """
    connection = await asyncio.to_thread(connect, place)
    try:
        await _begin(connection, place)
        transaction = SqliteOpened(connection, place, clock)
        yield transaction
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if is_trouble(error):
            raise translate(error, place) from error
        raise
    finally:
        connection.close()  # which rolls back what was not committed
    follow_up(transaction.after)


async def _begin(connection: sqlite3.Connection, place: Place) -> None:
    """The write lock is held. It is waited for here, not in SQLite, which would hold the event loop up."""
    deadline = time.monotonic() + place.busy_timeout
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.Error as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise translate(error, place) from error
        await asyncio.sleep(random.uniform(0.001, 0.01))
    connection.execute(f"PRAGMA busy_timeout = {round(place.busy_timeout * 1000)}")
