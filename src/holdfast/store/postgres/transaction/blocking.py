"""A connection of the pool as a thread uses it: psycopg's synchronous one, in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from ..connection.connect import Connection


class BlockingConnection(psycopg.Connection[Any]):
    """Speaks over the wire of an asynchronous connection, in whose transaction block it stands."""

    def __init__(self, of: Connection) -> None:
        super().__init__(of.pgconn)
        self.prepare_threshold = None  # names of prepared statements are the other's to give
        self._autocommit = of.autocommit
        self._num_transactions = 1  # so that commit() and rollback() are refused, and transaction() is a savepoint
        self._pool = None  # it is not its own to close


@contextmanager
def blocking(of: Connection) -> Iterator[BlockingConnection]:
    """Yield the connection for a thread, while the event loop leaves it alone."""
    handlers = of.pgconn.notice_handler, of.pgconn.notify_handler
    view = BlockingConnection(of)
    try:
        yield view
    finally:
        of.pgconn.notice_handler, of.pgconn.notify_handler = handlers
        del view.pgconn  # a handler that keeps it can do nothing with it
