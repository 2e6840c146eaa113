"""The PostgreSQL store, as the contract suite needs it: a schema of its own for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servers import postgres

from holdfast.store import Store
from holdfast.store.postgres import PostgresStore
from holdfast.testing.contract import Clock, Harness

STAY = {"queue", "policy", "key_limit", "event", "meta", "pulse", "front"}
_numbers = itertools.count(1)


class PostgresHarness(Harness):
    """A schema of the session's server."""

    processes = True

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.url = postgres().url(schema)

    def make(self, clock: Clock | None = None) -> Store:
        return PostgresStore(self.url, clock=clock)

    def keeping(self, events: int, clock: Clock) -> Store:
        return PostgresStore(f"{self.url}&history={events}", clock=clock)

    async def leftovers(self, store: Store) -> Mapping[str, int]:
        tables = await self._rows(store, "SELECT tablename FROM pg_tables WHERE schemaname = %s", self.schema)
        counts = {}
        for (name,) in tables:
            if name not in STAY:
                ((counts[name],),) = await self._rows(store, f'SELECT count(*) FROM "{self.schema}".{name}')
        return {name: count for name, count in counts.items() if count}

    async def damage(self, store: Store, queue: str, id: str) -> None:
        await self._rows(
            store,
            f"UPDATE \"{self.schema}\".job SET headers = '\\x7b6e6f', overrides = '\"no\"', error = '\\x7b6e6f'"
            " WHERE queue = %s AND id = %s",
            queue,
            id,
        )

    async def lose(self, store: Store, queue: str, id: str) -> None:
        await self._rows(store, f'DELETE FROM "{self.schema}".job WHERE queue = %s AND id = %s', queue, id)

    async def reset_log(self, store: Store) -> None:
        await self._rows(store, f'DELETE FROM "{self.schema}".event')
        await self._rows(store, f"UPDATE \"{self.schema}\".meta SET value = 'another' WHERE name = 'epoch'")
        await self._rows(store, f"UPDATE \"{self.schema}\".meta SET value = '0' WHERE name = 'trimmed'")

    def fresh(self) -> Harness:
        return postgres_schema(Path())

    async def ready_keys(self, store: Store, queue: str, now_ms: int) -> frozenset[str] | None:
        rows = await self._rows(
            store,
            f'SELECT key FROM "{self.schema}".lane'
            " WHERE queue = %s AND (ready OR ready_at_ms <= %s::bigint AND NOT cooling)",
            queue,
            now_ms,
        )
        return frozenset(key for (key,) in rows)

    async def dispose(self, store: Store) -> None:
        plain = PostgresStore(self.url)
        await plain.open()
        await self._rows(plain, f'DROP SCHEMA "{self.schema}" CASCADE')
        await plain.close()

    async def _rows(self, store: Store, statement: str, *values: object) -> list[tuple[Any, ...]]:
        assert isinstance(store, PostgresStore)
        return await store._rows(statement, values)


def postgres_schema(folder: Path) -> Harness:
    """Return a place in a schema of its own."""
    return PostgresHarness(f"contract_{os.getpid()}_{next(_numbers)}")
