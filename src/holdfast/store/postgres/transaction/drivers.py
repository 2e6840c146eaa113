"""The drivers whose connections callers bring: how each sends the one statement, and whether that is awaited."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from ....errors import ConfigError
from ... import foreign

Rows = list[Any]
"""Rows of a driver of the caller's: what they are made of, that driver decides."""
Send = Callable[[Sequence[str | None]], Rows | Awaitable[Rows]]
Recognised = tuple[Send, bool] | None


def recognise(connection: object, statement: str) -> Recognised:
    """Return how a connection sends the statement, and whether that is awaited; `None` for one that cannot."""
    for each in (_psycopg, _asyncpg, _alchemy, _django):
        if found := each(connection, statement):
            return found
    return None


def sqlstate(error: BaseException) -> str | None:
    """Return the server's code, from the driver's error or from one that a library has put round it."""
    for each in (error, getattr(error, "orig", None), error.__cause__):
        if isinstance(state := getattr(each, "sqlstate", None) or getattr(each, "pgcode", None), str):
            return state
    return None


def _numbered(statement: str) -> str:
    """Return a statement with its places as $1, $2, ..."""
    numbers = count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", statement)


def _psycopg(connection: object, statement: str) -> Recognised:
    if isinstance(connection, psycopg.Connection):

        def send(values: Sequence[str | None]) -> Rows:
            with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:  # not what its owner has set
                return cursor.execute(statement, values).fetchall()

        return send, False
    if isinstance(connection, psycopg.AsyncConnection):

        async def send_awaited(values: Sequence[str | None]) -> Rows:
            async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
                await cursor.execute(statement, values)
                return await cursor.fetchall()

        return send_awaited, True
    return None


def _asyncpg(connection: Any, statement: str) -> Recognised:
    ours = foreign.is_a(connection, "asyncpg", "Connection")
    if not (ours or foreign.is_a(connection, "asyncpg.pool", "PoolConnectionProxy")):
        return None

    async def send(values: Sequence[str | None]) -> Rows:
        return [tuple(row) for row in await connection.fetch(_numbered(statement), *values)]

    return send, True


def _alchemy(connection: Any, statement: str) -> Recognised:
    kind = foreign.layer(connection)
    if kind == "alchemy":

        def send(values: Sequence[str | None]) -> Rows:
            above = foreign.alchemy_connection(connection)
            return list(above.exec_driver_sql(_in_style(above, statement), tuple(values)).fetchall())

        return send, False
    if kind == "alchemy-async":

        async def send_awaited(values: Sequence[str | None]) -> Rows:
            above = await foreign.alchemy_connection(connection)
            return list((await above.exec_driver_sql(_in_style(above, statement), tuple(values))).fetchall())

        return send_awaited, True
    return None


def _in_style(above: Any, statement: str) -> str:
    """Return the statement with its places as the engine's driver wants them."""
    dialect = above.dialect
    if dialect.name != "postgresql":
        raise ConfigError(f"connection=: the engine is one of {dialect.name}, and the jobs are in PostgreSQL")
    return _numbered(statement) if dialect.paramstyle == "numeric_dollar" else statement


def _django(connection: Any, statement: str) -> Recognised:
    if foreign.layer(connection) != "django":
        return None

    def send(values: Sequence[str | None]) -> Rows:
        wrapper = foreign.django_connection(connection)
        if wrapper.vendor != "postgresql":
            raise ConfigError(f"connection=: the database is one of {wrapper.vendor}, and the jobs are in PostgreSQL")
        with wrapper.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    return send, False
