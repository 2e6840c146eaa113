"""A caller's own connection: one call of our function, in its transaction, with none of its settings touched."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from ...errors import ConfigError, HoldfastError
from .. import driver
from ..contract import KEEP, Answer, Conflict, NewJob
from . import call, sql
from .connection import Place, translate

Rows = list[Any]
Send = Callable[[Sequence[Any]], Rows | Awaitable[Rows]]
NOT_THERE = frozenset({"3F000", "42883", "42P01"})
"""No such schema, function or table."""

# Every value goes as text or NULL, which all drivers send alike; the server makes of it what it is.
STATEMENT = re.sub(
    r"%s::([a-z]+)", r"%s::text::\1", call.ENQUEUE_BLOCKED.replace("holdfast.enqueue(", "holdfast.join_enqueue(%s, ")
)


def numbered(statement: str) -> str:
    """Return a statement with its places as $1, $2, ..."""
    numbers = count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", statement)


class Identity:
    """Which store this is: known since it was opened, or asked of the server once, on a connection of our own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: str | None = None

    def learn(self, epoch: str) -> None:
        """It is this one. Nobody whose transaction has a connection already need wait for another to ask."""
        self._known = epoch

    def epoch(self) -> str:
        """Return it, as it was when it was last asked for."""
        return self._known or self.ask()

    def ask(self) -> str:
        """Return it, as it is now."""
        place = self._place
        try:
            with psycopg.connect(place.conninfo, autocommit=True, connect_timeout=max(1, round(place.patience))) as own:
                row = own.execute(f"SELECT value FROM \"{place.schema}\".meta WHERE name = 'epoch'").fetchone()
        except psycopg.Error as error:
            if error.sqlstate in NOT_THERE:
                raise ConfigError(
                    f"connection=: {place} has no tables yet; open the app once, which makes them"
                ) from error
            raise translate(error, place) from error
        self.learn(str(row[0]) if row else "")
        return self._known or ""


def joined(place: Place, identity: Identity, now: Callable[[], str | None], connection: Any) -> PostgresJoined:
    """Return the connection as one that takes in jobs, or say why it cannot."""
    statement = sql.rename(STATEMENT, place.schema)
    for recognise in (_psycopg, _asyncpg, _alchemy, _django):
        found = recognise(connection, statement)
        if found is not None:
            send, awaited = found
            return (AwaitedJoined if awaited else PostgresJoined)(place, identity, now, send)
    raise ConfigError(
        f"connection=: {place} cannot use a {driver.describe(connection)}; give a connection of psycopg, asyncpg, "
        "SQLAlchemy or Django"
    )


class PostgresJoined:
    """A connection of the caller's, in whose transaction jobs are taken in."""

    def __init__(self, place: Place, identity: Identity, now: Callable[[], str | None], send: Send) -> None:
        self._place = place
        self._identity = identity
        self._now = now
        self._send: Any = send

    def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Every job has its answer, and is there when the caller commits."""
        if not jobs:
            return []
        values = self._values(queue, jobs, conflict)
        with self._explained():
            rows: Rows = self._send([self._identity.epoch(), *values])
            if _elsewhere(rows):
                rows = self._send([self._identity.ask(), *values])
        return self._answers(rows)

    def _values(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Any]:
        return [*call.enqueue(self._now(), queue, jobs, conflict, None, joined=True), *call.blockers(jobs)]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A database in which nothing of ours is found is not the store's; every other error is the caller's own."""
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:
            if _sqlstate(error) in NOT_THERE:
                raise ConfigError(
                    f"connection=: what it is connected to has no schema of Holdfast, or an older one, where the jobs "
                    f"are in {self._place}: connect to that database, and open the app once"
                ) from error
            raise

    def _answers(self, rows: Rows) -> list[Answer]:
        if _elsewhere(rows):
            raise ConfigError(
                f"connection=: it is to another database, with jobs of its own, and the store is {self._place}; "
                "connect to that one"
            )
        return [call.answer([*row[:4], _bytes(row[4]), _bytes(row[5])]) for row in rows]


class AwaitedJoined(PostgresJoined):
    """The same for a connection whose calls are awaited."""

    def enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP) -> Awaitable[list[Answer]]:
        """Every job has its answer, once awaited, and is there when the caller commits."""
        return self._enqueue(queue, jobs, conflict)

    async def _enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
        if not jobs:
            return []
        values = self._values(queue, jobs, conflict)
        with self._explained():
            rows: Rows = await self._send([await asyncio.to_thread(self._identity.epoch), *values])
            if _elsewhere(rows):
                rows = await self._send([await asyncio.to_thread(self._identity.ask), *values])
        return self._answers(rows)


def _elsewhere(rows: Rows) -> bool:
    return len(rows) == 1 and rows[0][0] == "elsewhere"


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _sqlstate(error: BaseException) -> str | None:
    """Return the server's code, from the driver's error or from one that a library has put round it."""
    for each in (error, getattr(error, "orig", None), error.__cause__):
        if isinstance(state := getattr(each, "sqlstate", None) or getattr(each, "pgcode", None), str):
            return state
    return None


# --- the drivers: how each sends the one statement, and whether it is awaited

Found = tuple[Send, bool] | None


def _psycopg(connection: Any, statement: str) -> Found:
    if isinstance(connection, psycopg.Connection):

        def send(values: Sequence[Any]) -> Rows:
            with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:  # whatever its owner has set
                return cursor.execute(statement, values).fetchall()

        return send, False
    if isinstance(connection, psycopg.AsyncConnection):

        async def send_awaited(values: Sequence[Any]) -> Rows:
            async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
                await cursor.execute(statement, values)
                return await cursor.fetchall()

        return send_awaited, True
    return None


def _asyncpg(connection: Any, statement: str) -> Found:
    ours = driver.is_a(connection, "asyncpg", "Connection")
    if not (ours or driver.is_a(connection, "asyncpg.pool", "PoolConnectionProxy")):
        return None

    async def send(values: Sequence[Any]) -> Rows:
        return [tuple(row) for row in await connection.fetch(numbered(statement), *values)]

    return send, True


def _alchemy(connection: Any, statement: str) -> Found:
    kind = driver.layer(connection)
    if kind == "alchemy":

        def send(values: Sequence[Any]) -> Rows:
            above = driver.alchemy_connection(connection)
            return list(above.exec_driver_sql(_in_style(above, statement), tuple(values)).fetchall())

        return send, False
    if kind == "alchemy-async":

        async def send_awaited(values: Sequence[Any]) -> Rows:
            above = await driver.alchemy_connection(connection)
            return list((await above.exec_driver_sql(_in_style(above, statement), tuple(values))).fetchall())

        return send_awaited, True
    return None


def _in_style(above: Any, statement: str) -> str:
    """Return the statement with its places as the engine's driver wants them."""
    dialect = above.dialect
    if dialect.name != "postgresql":
        raise ConfigError(f"connection=: the engine is one of {dialect.name}, and the jobs are in PostgreSQL")
    return numbered(statement) if dialect.paramstyle == "numeric_dollar" else statement


def _django(connection: Any, statement: str) -> Found:
    if driver.layer(connection) != "django":
        return None

    def send(values: Sequence[Any]) -> Rows:
        wrapper = driver.django_connection(connection)
        if wrapper.vendor != "postgresql":
            raise ConfigError(f"connection=: the database is one of {wrapper.vendor}, and the jobs are in PostgreSQL")
        with wrapper.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    return send, False
