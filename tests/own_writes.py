"""A place where a handler's own table is beside the store's: a SQLite file, or a schema of PostgreSQL."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from servers import postgres

_numbers = itertools.count(1)


class Place:
    """Where the store and the handler's own table are."""

    def __init__(self, url: str, table: str) -> None:
        self.url = url
        self.table = table

    async def write(self, tx: Any, n: int) -> None:
        """What a handler does: one statement, by the driver that the store gives it."""
        statement = f"INSERT INTO {self.table} VALUES ({n})"
        if isinstance(tx.connection, sqlite3.Connection):
            tx.connection.execute(statement)
        else:
            await tx.connection.execute(statement)

    def write_here(self, tx: Any, n: int) -> None:
        """The same in a `def` handler."""
        tx.connection.execute(f"INSERT INTO {self.table} VALUES ({n})")

    def rows(self) -> list[int]:
        raise NotImplementedError


class SqlitePlace(Place):
    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}", "mine")
        self._path = path
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE mine (n INTEGER)")
        connection.close()

    def rows(self) -> list[int]:
        connection = sqlite3.connect(self._path)
        found = [n for (n,) in connection.execute("SELECT n FROM mine ORDER BY n")]
        connection.close()
        return found


class PostgresPlace(Place):
    def __init__(self) -> None:
        self.schema = f"own_{os.getpid()}_{next(_numbers)}"
        super().__init__(postgres().url(self.schema), f"{self.schema}.mine")
        self.do(f"CREATE SCHEMA {self.schema}", f"CREATE TABLE {self.table} (n INTEGER)")

    def do(self, *statements: str) -> list[Any]:
        with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> list[int]:
        return [n for (n,) in self.do(f"SELECT n FROM {self.table} ORDER BY n")]


@contextmanager
def own_place(kind: str, path: Path) -> Iterator[Place]:
    """Yield a place of a kind."""
    if kind == "sqlite":
        yield SqlitePlace(path)
        return
    with own_postgres() as found:
        yield found


@contextmanager
def own_postgres() -> Iterator[PostgresPlace]:
    """Yield a schema that is dropped afterwards."""
    found = PostgresPlace()
    yield found
    found.do(f"DROP SCHEMA {found.schema} CASCADE")
