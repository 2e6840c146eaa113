"""How much room a store takes, as the store itself says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from benchmarks.system import Place, System

Used = tuple[int, int]
"""Bytes in all, and those of the event log where it can be told apart."""


def in_sqlite(system: System, place: Place) -> Used:
    """The pages of the file that hold something, its log taken in."""
    with closing(sqlite3.connect(place.url)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size, pages, free = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
        )
    return size * (pages - free), 0


def in_redis(system: System, place: Place) -> Used:
    """The server's `used_memory`, of which the stream of events is a part."""
    import redis

    with redis.Redis.from_url(place.url) as client:
        events = client.memory_usage(system.log, samples=0) if system.log else 0
        return int(client.info("memory")["used_memory"]), int(events or 0)


def in_postgres(system: System, place: Place) -> Used:
    """Tables with their indexes and long values, wherever the system has put them."""
    import psycopg

    with psycopg.connect(place.url) as server:
        row = server.execute(
            "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind IN ('r', 'm')"
            " AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
        ).fetchone()
    return (int(row[0]) if row and row[0] else 0), 0


USED: dict[str, Callable[[System, Place], Used]] = {"sqlite": in_sqlite, "redis": in_redis, "postgres": in_postgres}
