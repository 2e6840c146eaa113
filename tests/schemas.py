"""Schemas of the run's PostgreSQL server that tests use one after another.

To make a schema takes the server longer than most tests take. So a test that only wants an empty store takes one from
here and gives it back, and its rows are deleted.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql
from servers import postgres

from holdfast.store.postgres.migration import script

MOST_USES = 25
"""After so many tests a schema is dropped: what was deleted stays in its files, since nothing is vacuumed."""
_numbers = itertools.count(1)


def drop(name: str) -> None:
    """The schema is gone, as soon as the server has ended what a test has cancelled in it."""
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        for _ in range(5):
            with suppress(psycopg.errors.DeadlockDetected):
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
                return
    raise AssertionError(f"somebody still works in the schema {name}")


class Schema:
    """A schema, and what a new one has in its tables and sequences."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.name = f"shared-{os.getpid()}-{next(_numbers)}"
        self.uses = 0
        self._connection = connection
        connection.execute(script(self.name))  # type: ignore[arg-type]
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        sequences = "SELECT sequencename, start_value FROM pg_sequences WHERE schemaname = %s"
        rows = {name: self._read(name) for (name,) in connection.execute(tables, [self.name])}
        starts = connection.execute(sequences, [self.name]).fetchall()
        self._script = self._clearing(rows, starts)

    def _read(self, table: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql.SQL("SELECT * FROM {}").format(self._named(table))).fetchall()

    def _named(self, name: str) -> sql.Identifier:
        return sql.Identifier(self.name, name)

    def _clearing(self, rows: dict[str, list[tuple[Any, ...]]], starts: list[tuple[str, int]]) -> sql.Composed:
        """Return the statements that make the schema as it is now, for one call. No trigger and no foreign key acts."""
        statements: list[sql.Composable] = [
            sql.SQL("SET LOCAL session_replication_role = replica"),
            sql.SQL("SET LOCAL lock_timeout = '2s'"),
        ]
        for table, values in rows.items():
            statements.append(sql.SQL("DELETE FROM {}").format(self._named(table)))
            for row in values:
                listed = sql.SQL(", ").join(map(sql.Literal, row))
                statements.append(sql.SQL("INSERT INTO {} VALUES ({})").format(self._named(table), listed))
        for name, start in starts:
            place = self._named(name).as_string(self._connection)
            statements.append(sql.SQL("SELECT setval({}::regclass, {}, false)").format(place, start))
        return sql.SQL("; ").join(statements)

    def clear(self) -> None:
        """The schema is as it was when it was new."""
        with self._connection.transaction():
            self._connection.execute(self._script)

    def drop(self) -> None:
        """The schema is gone."""
        drop(self.name)


class Pool:
    """The schemas of this process, those that a test has and those that wait for the next."""

    def __init__(self) -> None:
        self._connection = psycopg.connect(postgres().url().partition("?")[0], autocommit=True)
        atexit.register(self._connection.close)
        self._free: list[Schema] = []
        self._taken: dict[str, Schema] = {}

    def take(self) -> str:
        """Return the name of a schema that is as new, until it is given back."""
        schema = self._free.pop() if self._free else Schema(self._connection)
        self._taken[schema.name] = schema
        schema.uses += 1
        return schema.name

    def give_back(self, name: str) -> None:
        """Let other tests have a schema. One that a test has changed or holds locked is not used again."""
        schema = self._taken.pop(name)
        if schema.uses >= MOST_USES:
            schema.drop()
            return
        with suppress(psycopg.Error):
            schema.clear()
            self._free.append(schema)


@functools.cache
def pool() -> Pool:
    """Return the pool of this process."""
    return Pool()
