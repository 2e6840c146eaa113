"""The PostgreSQL store, as the contract suite needs it: an empty schema for each test."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import garbage
import psycopg
from schemas import pool
from servers import postgres

from holdfast.store import Store
from holdfast.store.postgres import PostgresStore
from holdfast.testing.contract import Clock, Harness

STAY = {"queue", "policy", "key_limit", "event", "meta", "pulse", "front", "corrupt", "schedule", "tally", "move"}
FOUND_BY = {"run", "place", "seq", "xid", "grip", "chain", "tail", "absorbed_to", "requeued_as", "blocker", "key"}
"""By these records are found: with another value it is another record, and the one that was there is lost."""
PLAUSIBLE = {("job", "priority = -1"), ("job", "run_at_ms = -1"), ("lane", "ready_at_ms = NULL")}
"""What a job might have had from the start."""


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
        counts = (f"SELECT '{name}', count(*) FROM \"{self.schema}\".{name}" for (name,) in tables if name not in STAY)
        return {name: count for name, count in await self._rows(store, " UNION ALL ".join(counts)) if count}

    async def damage(self, store: Store, queue: str, id: str) -> None:
        await self._rows(
            store,
            f"UPDATE \"{self.schema}\".job SET envelope = '\\x7b6e6f', overrides = '\"no\"', error = '\\x7b6e6f'"
            " WHERE queue = %s AND id = %s",
            queue,
            id,
        )

    async def lose(self, store: Store, queue: str, id: str) -> None:
        await self._rows(store, f'DELETE FROM "{self.schema}".job WHERE queue = %s AND id = %s', queue, id)

    def ways(self, kind: str) -> Sequence[str]:
        return [
            f"{name} = {value}"
            for name, type, nullable in _columns().get(kind, ())
            for value in (
                *garbage.POSTGRES.get(type, ()),
                *(garbage.STATES if name.endswith("state") else ()),
                *(("NULL",) if nullable == "YES" else ()),
            )
            if name not in FOUND_BY
            and (kind, f"{name} = {value}") not in PLAUSIBLE
            and (kind, name) != ("request", "at_ms")
        ]

    async def spoil(self, store: Store, kind: str, way: str, queue: str, id: str) -> None:
        where = {
            "job": "queue = %(queue)s AND id = %(id)s", "queue": "name = %(queue)s",
            "request": "id = 'request-' || %(queue)s", "blocker": "queue = %(queue)s AND run > 0",
            "session": f'id IN (SELECT id FROM "{self.schema}".serving WHERE queue = %(queue)s)',
        }  # fmt: skip
        statement = (
            f'UPDATE "{self.schema}".{kind} SET {way.replace("%", "%%")} WHERE {where.get(kind, "queue = %(queue)s")}'
        )
        assert isinstance(store, PostgresStore)
        await store.caller.rows(statement, {"queue": queue, "id": id})

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
        pool().give_back(self.schema)

    async def _rows(self, store: Store, statement: str, *values: object) -> list[tuple[Any, ...]]:
        assert isinstance(store, PostgresStore)
        return await store.caller.rows(statement, values)


@functools.cache
def _columns() -> dict[str, list[tuple[str, str, str]]]:
    """Return name, type and whether it may be NULL, of the columns of each table."""
    schema = pool().take()
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_schema = %s AND is_generated = 'NEVER' ORDER BY table_name, ordinal_position",
            [schema],
        ).fetchall()
    pool().give_back(schema)
    return {table: [row[1:] for row in group] for table, group in itertools.groupby(rows, key=lambda row: row[0])}


def postgres_schema(folder: Path) -> Harness:
    """Return a place in a schema that is empty."""
    return PostgresHarness(pool().take())
