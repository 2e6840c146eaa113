"""A caller's own connection: one call of our function, in its transaction, with none of its settings touched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from ....errors import ConfigError, HoldfastError
from ... import foreign
from ...contract import KEEP, Answer, Conflict, NewJob
from .. import sql
from ..call import arguments, replies
from ..call.entry import entry
from ..connection.caller import PostgresCaller
from ..connection.errors import translate
from .drivers import Rows, recognise, sqlstate

NOT_THERE = frozenset({"3F000", "42883", "42P01"})
"""No such schema, function or table."""


def statement(schema: str) -> str:
    """Return the call of `enqueue`, in which every argument is a text that the server casts: all drivers send that."""
    return sql.rename(entry("enqueue").statement(lambda name, type: f"%s::text::{type}"), schema)


def join(caller: PostgresCaller, connection: object) -> PostgresJoined:
    """Return the connection as one that takes in jobs, or say why it cannot."""
    found = recognise(connection, statement(caller.address.schema))
    if found is None:
        raise ConfigError(
            f"connection=: {caller.address} cannot use a {foreign.describe(connection)}; give a connection of psycopg, "
            "asyncpg, SQLAlchemy or Django"
        )
    send, awaited = found
    return (AwaitedJoined if awaited else PostgresJoined)(caller, send)


def epoch_of(caller: PostgresCaller) -> str:
    """Return what tells the store from others, as it was when it was last asked for."""
    return caller.epoch or ask_epoch(caller)


def ask_epoch(caller: PostgresCaller) -> str:
    """Return what tells the store from others, as it is now, asked on a connection of our own."""
    address = caller.address
    try:
        with psycopg.connect(address.conninfo, autocommit=True, connect_timeout=max(1, round(address.patience))) as own:
            row = own.execute(f"SELECT value FROM \"{address.schema}\".meta WHERE name = 'epoch'").fetchone()
    except psycopg.Error as error:
        if error.sqlstate in NOT_THERE:
            raise ConfigError(
                f"connection=: {address} has no tables yet; open the app once, which makes them"
            ) from error
        raise translate(error, address) from error
    caller.epoch = found = str(row[0]) if row else ""
    return found


class PostgresJoined:
    """A connection of the caller's, in whose transaction jobs are taken in."""

    def __init__(self, caller: PostgresCaller, send: Any) -> None:
        """`send` is a `drivers.Send`: what it returns is awaited by the class below, and here it is not."""
        self._caller = caller
        self._send = send

    def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Enqueue every job; it is there when the caller commits."""
        if not jobs:
            return []
        with self._explained():
            rows: Rows = self._send(self._values(queue, jobs, conflict, epoch_of(self._caller)))
            if _elsewhere(rows):
                rows = self._send(self._values(queue, jobs, conflict, ask_epoch(self._caller)))
        return self._answers(rows)

    def _values(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, epoch: str) -> list[str | None]:
        values = arguments.enqueue(self._caller.now(), queue, jobs, conflict, epoch=epoch)
        return [values[name] for name in entry("enqueue").arguments]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain the error of a database in which nothing of ours is found; leave every other to the caller."""
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:
            if sqlstate(error) in NOT_THERE:
                raise ConfigError(
                    f"connection=: what it is connected to has no schema of Holdfast, or an older one, where the jobs "
                    f"are in {self._caller.address}: connect to that database, and open the app once"
                ) from error
            raise

    def _answers(self, rows: Rows) -> list[Answer]:
        if _elsewhere(rows):
            raise ConfigError(
                f"connection=: it is to another database, with jobs of its own, and the store is "
                f"{self._caller.address}; connect to that one"
            )
        return [replies.answer(row) for row in rows]


class AwaitedJoined(PostgresJoined):
    """The same for a connection whose calls are awaited."""

    def enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP) -> Awaitable[list[Answer]]:
        """Enqueue every job, once awaited; it is there when the caller commits."""
        return self._enqueue(queue, jobs, conflict)

    async def _enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
        if not jobs:
            return []
        with self._explained():
            epoch = await asyncio.to_thread(epoch_of, self._caller)
            rows: Rows = await self._send(self._values(queue, jobs, conflict, epoch))
            if _elsewhere(rows):
                epoch = await asyncio.to_thread(ask_epoch, self._caller)
                rows = await self._send(self._values(queue, jobs, conflict, epoch))
        return self._answers(rows)


def _elsewhere(rows: Rows) -> bool:
    return len(rows) == 1 and rows[0][0] == "elsewhere"
