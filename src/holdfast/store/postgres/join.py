"""A caller's own transaction: the same statement, through whatever driver the caller uses.

Nothing is committed, retried or translated here: the transaction, and its errors, are the caller's.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Sequence
from typing import Any

from ...errors import ConfigError

Rows = Sequence[Sequence[Any]]
_SLOT = re.compile(r"%s(?:::([\w\[\]]+))?")


async def run(connection: Any, statement: str, values: Sequence[Any]) -> Rows:
    """Return the rows of a statement, run on the caller's connection or session."""
    kinds = {each.__module__.partition(".")[0] for each in type(connection).__mro__}
    if "psycopg" in kinds:
        return await _psycopg(connection, statement, values)
    if "asyncpg" in kinds:
        rows: Rows = await connection.fetch(_numbered(statement), *values)
        return rows
    if "sqlalchemy" in kinds:
        return await _sqlalchemy(connection, statement, values)
    if hasattr(connection, "cursor") and hasattr(connection, "vendor"):
        return _django(connection, statement, values)
    raise ConfigError(
        f"connection={type(connection).__module__}.{type(connection).__qualname__}: a connection of psycopg or "
        "asyncpg, a connection or session of SQLAlchemy, or django.db.connection"
    )


async def _psycopg(connection: Any, statement: str, values: Sequence[Any]) -> Rows:
    from psycopg.rows import tuple_row

    def sync() -> Rows:
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            cursor.execute(statement, values)
            rows: Rows = cursor.fetchall()
            return rows

    if not inspect.iscoroutinefunction(connection.commit):
        return await asyncio.to_thread(sync)
    async with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values)
        rows: Rows = await cursor.fetchall()
        return rows


async def _sqlalchemy(connection: Any, statement: str, values: Sequence[Any]) -> Rows:
    from sqlalchemy import text

    wanted = text(_spelled(statement))
    named = {f"v{number}": value for number, value in enumerate(values, 1)}
    if inspect.iscoroutinefunction(connection.execute):
        return [tuple(row) for row in (await connection.execute(wanted, named)).all()]
    found = await asyncio.to_thread(lambda: connection.execute(wanted, named).all())
    return [tuple(row) for row in found]


def _django(connection: Any, statement: str, values: Sequence[Any]) -> Rows:
    """In this very thread: Django's connections belong to one."""
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values))
        return [tuple(bytes(field) if isinstance(field, memoryview) else field for field in row) for row in cursor]


def _numbered(statement: str) -> str:
    """Return the statement with `$1`: what we send as text is cast from text."""
    number = 0

    def slot(match: re.Match[str]) -> str:
        nonlocal number
        number += 1
        return f"${number}::text::{match[1]}" if match[1] else f"${number}"

    return _SLOT.sub(slot, statement)


def _spelled(statement: str) -> str:
    """Return the statement with `:v1`, and casts that SQLAlchemy does not take for parameters."""
    number = 0

    def slot(match: re.Match[str]) -> str:
        nonlocal number
        number += 1
        inner = f"CAST(:v{number} AS text)"
        return f"CAST({inner} AS {match[1]})" if match[1] else inner

    return _SLOT.sub(slot, statement)
