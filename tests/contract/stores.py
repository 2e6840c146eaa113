"""The built-in stores, as the contract suite needs them."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import garbage
import pytest
import redis_store
from postgres_store import postgres_schema

from holdfast.store import Store
from holdfast.store.sqlite import SqliteStore
from holdfast.store.sqlite.sql import migrations
from holdfast.testing.contract import Clock, Harness, StoreContract

STAY = {"queue", "policy", "adjustment", "key_limit", "event", "meta", "corrupt", "schedule", "tally"}
UNSPOILABLE = {("job", "run"), ("event", "seq"), ("blocker", "run"), ("blocker", "place")}
"""By these a record is found: with another number it is another record, and the one that was there is lost."""
BY_KEY = ("lane", "session")
"""The same for texts: one that is no text is another key, and nothing says which it was."""
_numbers = itertools.count(1)


class SqliteHarness(Harness):
    """A database of its own for each test, in a file or in memory."""

    def __init__(self, url: str, *, processes: bool) -> None:
        self.url = url
        self.processes = processes

    def make(self, clock: Clock | None = None) -> Store:
        return SqliteStore(self.url, clock=clock)

    def keeping(self, events: int, clock: Clock) -> Store:
        return SqliteStore(f"{self.url}?history={events}", clock=clock)

    def fresh(self) -> Harness:
        return SqliteHarness(f"{self.url}-{next(_numbers)}", processes=self.processes)

    async def leftovers(self, store: Store) -> Mapping[str, int]:
        tables = await self._rows(
            store, "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast_%'"
        )
        counts = {
            name: (await self._rows(store, f"SELECT count(*) FROM {name}"))[0][0]
            for (name,) in tables
            if name.removeprefix("holdfast_") not in STAY
        }
        return {name: count for name, count in counts.items() if count}

    async def damage(self, store: Store, queue: str, id: str) -> None:
        await self._rows(
            store,
            "UPDATE holdfast_job SET envelope = x'7b6e6f', overrides = x'7b6e6f', error = x'7b6e6f'"
            " WHERE queue = ? AND id = ?",
            queue,
            id,
        )

    async def lose(self, store: Store, queue: str, id: str) -> None:
        await self._rows(store, "DELETE FROM holdfast_job WHERE queue = ? AND id = ?", queue, id)

    def ways(self, kind: str) -> Sequence[str]:
        with closing(sqlite3.connect(":memory:")) as connection:
            for _, script in migrations():
                connection.executescript(script)
            columns = connection.execute(f"PRAGMA table_info(holdfast_{kind})").fetchall()
        return [
            f"{name} = {value}"
            for _, name, type, needed, _, key in columns
            for value in (
                *garbage.SQLITE[type],
                *(garbage.STATES if name.endswith("state") else ()),
                *(() if needed or key else ("NULL",)),
            )
            if (kind, name) not in UNSPOILABLE and not (key and kind in BY_KEY and "AS TEXT" in value)
        ]

    async def spoil(self, store: Store, kind: str, way: str, queue: str, id: str) -> None:
        where = {"job": "queue = ?1 AND id = ?2", "queue": "name = ?1", "request": "id = 'request-' || ?1"}
        one = where.get(kind, "queue = ?1")
        await self._rows(store, f"UPDATE OR REPLACE holdfast_{kind} SET {way} WHERE {one} AND ?2 = ?2", queue, id)

    async def reset_log(self, store: Store) -> None:
        await self._rows(store, "DELETE FROM holdfast_event")
        await self._rows(store, "UPDATE holdfast_meta SET value = 'another' WHERE name = 'epoch'")

    async def ready_keys(self, store: Store, queue: str, now_ms: int) -> frozenset[str] | None:
        ready = "SELECT key FROM holdfast_lane WHERE queue = ? AND (ready OR ready_at_ms <= ? AND NOT cooling)"
        return frozenset(key for (key,) in await self._rows(store, ready, queue, now_ms))

    async def dispose(self, store: Store) -> None:
        assert isinstance(store, SqliteStore)
        if not self.processes:
            store.database.writer.stop()  # a memory store lives as long as its process otherwise

    async def _rows(self, store: Store, statement: str, *values: object) -> list[tuple[Any, ...]]:
        assert isinstance(store, SqliteStore)
        return await store.database.writer.ask(
            lambda connection, after: connection.execute(statement, values).fetchall()
        )


def sqlite_file(folder: Path) -> Harness:
    """Return a place in a file."""
    return SqliteHarness(f"sqlite:///{folder}/jobs.db", processes=True)


def memory(folder: Path) -> Harness:
    """Return a place in memory, under a name that nobody else uses."""
    return SqliteHarness(f"memory://contract-{next(_numbers)}", processes=False)


HARNESSES: dict[str, Callable[[Path], Harness]] = {
    "sqlite": sqlite_file,
    "memory": memory,
    "postgresql": postgres_schema,
    **redis_store.available(),
}
"""How the suite makes each built-in store, by the scheme of its URL."""


def contract_of(scheme: str) -> type:
    """Return the contract suite for one store; empty where its server is not installed."""
    if scheme not in HARNESSES:
        return object

    class TestContract(StoreContract):
        @pytest.fixture
        def harness(self, tmp_path: Path) -> Harness:
            return HARNESSES[scheme](tmp_path)

    TestContract.scheme = scheme  # type: ignore[attr-defined]
    return TestContract
