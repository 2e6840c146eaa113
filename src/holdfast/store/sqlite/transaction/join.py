"""A caller's own connection: our statements, in its transaction, whose commit wakes workers as ours does."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ....errors import ConfigError
from ... import foreign
from ...contract import KEEP, Answer, Conflict, NewJob
from .. import sql
from ..notify import After, follow_up
from ..transition.enqueue import enqueue
from ..transition.unblock import unblock_dependants
from ..tx import Tx
from ..url import SqliteAddress
from .commit import wake_after

Work = Callable[[sqlite3.Connection], list[Answer]]
LEGACY = getattr(sqlite3, "LEGACY_TRANSACTION_CONTROL", -1)
"""Newer Pythons can say what older ones always do: begin before a change, unless `isolation_level` is None."""

BEGIN = "PRAGMA database_list"
"""Whatever it runs, SQLAlchemy notes that a transaction has begun, which it has to commit."""


def joined(address: SqliteAddress, connection: Any, clock: Callable[[], int]) -> SqliteJoined:
    """Return the connection as one that takes in jobs, or say why it cannot."""
    if address.path is None:
        raise ConfigError(
            f"connection=: {address} is in this process's memory, which no other connection can reach; use a file"
        )
    kind = foreign.layer(connection)
    if kind == "alchemy":
        return SqliteJoined(address, clock, _under_alchemy(connection))
    if kind == "django":
        return SqliteJoined(address, clock, _under_django(connection))
    if isinstance(connection, sqlite3.Connection):
        return SqliteJoined(address, clock, lambda work: work(connection))
    if kind == "alchemy-async":
        return SqliteJoined(address, clock, _under_async_alchemy(connection))
    if foreign.is_a(connection, "aiosqlite", "Connection"):
        return SqliteJoined(address, clock, lambda work: _in_aiosqlite(connection, work))
    raise ConfigError(
        f"connection=: {address} cannot use a {foreign.describe(connection)}; give a connection of sqlite3, aiosqlite, "
        "SQLAlchemy or Django"
    )


class SqliteJoined:
    """A connection of the caller's, in whose transaction jobs are taken in."""

    def __init__(
        self,
        address: SqliteAddress,
        clock: Callable[[], int],
        do: Callable[[Work], list[Answer] | Awaitable[list[Answer]]],
    ) -> None:
        self._address = address
        self._clock = clock
        self._do = do

    def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Enqueue jobs; they are there when the caller commits."""

        def work(connection: sqlite3.Connection) -> list[Answer]:
            with plain_text(connection):
                _check_file(self._address, connection)
                with savepoint(connection):
                    _check_tables(self._address, connection)
                    after: After = []
                    statements = sql.statements(self._address.namespace)
                    tx = Tx(Cursors(connection), statements, self._clock(), {}, after)
                    answers = enqueue(tx, queue, jobs, conflict) if jobs else []
                    unblock_dependants(tx)
                if connection.in_transaction:
                    wake_after(self._address, after)
                else:
                    follow_up(after)
                return answers

        return self._do(work)


class Cursors:
    """The caller's connection with rows that are tuples, whatever its row factory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        return _cursor(self._connection).execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        return _cursor(self._connection).executemany(statement, rows)


def _cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    cursor = sqlite3.Cursor(connection)
    cursor.row_factory = None
    return cursor


@contextmanager
def plain_text(connection: sqlite3.Connection) -> Iterator[None]:
    """Read text as `str` inside the block, whatever the caller has set."""
    factory, connection.text_factory = connection.text_factory, str
    try:
        yield
    finally:
        connection.text_factory = factory


@contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo what fails inside the block, and nothing else of the caller's transaction."""
    cursor = _cursor(connection)
    began = not connection.in_transaction
    cursor.execute("BEGIN IMMEDIATE" if began else "SAVEPOINT holdfast_enqueue")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # else SQLite itself has rolled all of it back
            cursor.execute("ROLLBACK" if began else "ROLLBACK TO holdfast_enqueue")
        if connection.in_transaction:
            cursor.execute("RELEASE holdfast_enqueue")
        raise
    if not began:
        cursor.execute("RELEASE holdfast_enqueue")
    elif _commits_each_statement(connection):
        cursor.execute("COMMIT")


def _commits_each_statement(connection: sqlite3.Connection) -> bool:
    """Return whether a caller who has begun no transaction will not commit one either."""
    autocommit = getattr(connection, "autocommit", LEGACY)
    return connection.isolation_level is None if autocommit == LEGACY else bool(autocommit)


def _check_file(address: SqliteAddress, connection: sqlite3.Connection) -> None:
    """Raise `ConfigError` unless the connection's own database is the store's file. It is not read yet."""
    assert address.path is not None
    found = _cursor(connection).execute("PRAGMA database_list").fetchall()
    file = next((row[2] for row in found if row[1] == "main"), "")
    if not (file and os.path.exists(address.path) and os.path.samefile(file, address.path)):
        raise ConfigError(
            f"connection=: it is to {file or 'a database in memory'}, and the jobs are in {address}: the caller's main "
            "database must be that file"
        )


def _check_tables(address: SqliteAddress, connection: sqlite3.Connection) -> None:
    """Raise `ConfigError` unless the store's tables are there and up to date; take the write lock.

    A transaction that reads first, and has to wait for the lock then, gets an error at once:
    so this begins with a change.
    """
    meta, cursor = sql.rename("holdfast_meta", address.namespace), _cursor(connection)
    try:
        cursor.execute(f"UPDATE main.{meta} SET value = value WHERE 0")
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise ConfigError(
            f"connection=: {address} has no table {address.namespace}_meta yet; open the app once before, "
            "which makes it"
        ) from None
    ((found,),) = cursor.execute(f"SELECT value FROM main.{meta} WHERE name = 'schema'").fetchall()
    newest = sql.migrations()[-1][0]
    if int(found) != newest:
        raise ConfigError(
            f"connection=: {address} has schema {found}, and this Holdfast knows {newest}: open the app first"
        )


# --- what lies above sqlite3


def _under_alchemy(connection: Any) -> Callable[[Work], list[Answer]]:
    def do(work: Work) -> list[Answer]:
        above = foreign.alchemy_connection(connection)
        if not above.in_transaction():
            above.exec_driver_sql(BEGIN)
        raw = above.connection.driver_connection
        return work(_sqlite3(raw, connection))

    return do


def _under_async_alchemy(connection: Any) -> Callable[[Work], Awaitable[list[Answer]]]:
    async def do(work: Work) -> list[Answer]:
        above = await foreign.alchemy_connection(connection)
        if not above.in_transaction():
            await above.exec_driver_sql(BEGIN)
        raw = (await above.get_raw_connection()).driver_connection
        if not foreign.is_a(raw, "aiosqlite", "Connection"):
            raise _another(raw, connection)
        return await _in_aiosqlite(raw, work)

    return do


def _under_django(connection: Any) -> Callable[[Work], list[Answer]]:
    def do(work: Work) -> list[Answer]:
        raw = foreign.django_connection(connection).connection
        return work(_sqlite3(raw, connection))

    return do


async def _in_aiosqlite(connection: Any, work: Work) -> list[Answer]:
    """Run the work in the connection's own thread, in its turn."""
    answers: list[Answer] = await connection._execute(work, connection._conn)
    return answers


def _sqlite3(raw: Any, given: Any) -> sqlite3.Connection:
    if not isinstance(raw, sqlite3.Connection):
        raise _another(raw, given)
    return raw


def _another(raw: Any, given: Any) -> ConfigError:
    return ConfigError(
        f"connection=: the {foreign.describe(given)} is one of {foreign.describe(raw)}, and the jobs are in SQLite; "
        "give one to the file of the store"
    )
