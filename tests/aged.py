"""A PostgreSQL store that has lived for a while, and what each call makes it read: rows, and entries of indexes."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from servers import PostgresServer

from holdfast.client import new_id
from holdfast.core.chain import BlockerRef
from holdfast.store.contract import Claimed, Complete, Continuation, DedupSpec, NewJob, Session
from holdfast.store.contract import ScheduleChange as Change
from holdfast.store.postgres import PostgresStore

DAY_MS = 24 * 3600 * 1000
READ = """
SELECT (SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables
        WHERE schemaname = %(schema)s)
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %(schema)s)
"""
_numbers = itertools.count(1)


class Clock:
    """Stands still until it is moved."""

    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Aged:
    """A store with one connection and one worker."""

    def __init__(self, server: PostgresServer) -> None:
        self.schema = f"aged_{os.getpid()}_{next(_numbers)}"
        self.place = server.url().partition("?")[0]
        self.clock = Clock()
        self.store = PostgresStore(f"{server.url(self.schema)}&pool=1&history=100", clock=self.clock)
        self.session = self.worker("plain", "keyed")

    def worker(self, *queues: str) -> Session:
        return Session(id=new_id(), name="w", host="-", pid=0, queues=queues, lease_ms=10 * DAY_MS)

    async def analyze(self, *tables: str) -> None:
        """The planner knows the tables, or all of them, as they are now."""
        found = tables or [
            name for (name,) in await self._all(f"SELECT tablename FROM pg_tables WHERE schemaname = '{self.schema}'")
        ]
        for table in found:
            await self._all(f'ANALYZE "{self.schema}"."{table}"')

    async def _all(self, statement: str) -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(self.place, autocommit=True) as connection:
            cursor = await connection.execute(statement.encode())
            return await cursor.fetchall() if cursor.description else []

    async def cost(self, work: Callable[[Aged], Awaitable[object]]) -> int:
        """Return how many rows and entries the work made the server read."""
        before = await self._read()
        await work(self)
        return await self._read() - before

    async def _read(self) -> int:
        await self.store.caller.rows("SELECT pg_stat_force_next_flush()", ())
        async with await psycopg.AsyncConnection.connect(self.place, autocommit=True) as connection:
            cursor = await connection.execute(READ, {"schema": self.schema})
            row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    # --- a queue's life

    async def add(self, count: int, queue: str = "plain", **fields: Any) -> list[NewJob]:
        """So many more jobs are there, in one call."""
        jobs = [NewJob(**{"id": new_id(), "task": "t", "payload": b"{}", **fields}) for _ in range(count)]
        await self.store.enqueue(queue, jobs)
        return jobs

    async def claim(self, room: int, queue: str = "plain", session: Session | None = None) -> list[Claimed]:
        turn = await self.store.settle_and_claim(session or self.session, [], (queue,), room)
        return list(turn.claimed)

    async def drain(self, queue: str = "plain", ttl_ms: int = 10 * DAY_MS) -> None:
        """Nothing waits; what was done is kept."""
        done: list[Complete] = []
        while True:
            turn = await self.store.settle_and_claim(self.session, done, (queue,), 100)
            done = [Complete(job.lease, b"null", ttl_ms) for job in turn.claimed]
            if not done:
                return

    async def backlog(self, size: int) -> None:
        """Jobs wait, of several priorities."""
        for priority in range(4):
            await self.add(size // 4, fresh=True, priority=priority)

    async def idle(self, size: int) -> None:
        """Nothing waits, and much is kept."""
        await self.backlog(size)
        await self.drain()

    async def keys(self, size: int) -> None:
        """Many keys have jobs, each a few."""
        jobs = [NewJob(id=new_id(), task="t", payload=b"{}", key=f"k{each % (size // 4)}") for each in range(size)]
        await self.store.enqueue("keyed", jobs)

    async def later(self, size: int) -> None:
        """Jobs wait for their time."""
        await self.add(size, delay_ms=9 * DAY_MS)

    async def schedules(self, size: int) -> None:
        """Schedules have their next tick ahead."""
        for _ in range(size // 10):
            await self.store.put_schedule(
                Change(
                    queue="plain",
                    name=new_id(),
                    expected=None,
                    revision=new_id(),
                    next_at_ms=self.clock.now_ms + 9 * DAY_MS,
                    body=b"{}",
                )
            )

    async def chains(self, size: int) -> None:
        """Chains are open, and jobs wait for one of them."""
        first = await self.add(1)
        for _ in range(2):
            jobs = await self.claim(100)
            then = [Continuation("later", NewJob(id=new_id(), task="t", payload=b"{}")) for _ in jobs]
            ends = [Complete(job.lease, b"null", None, next_) for job, next_ in zip(jobs, then, strict=True)]
            await self.store.settle_and_claim(self.session, ends, (), 0)
        await self.add(size, "blocked", blockers=(BlockerRef("plain", first[0].id),))

    async def dedups(self, size: int) -> None:
        """Jobs have one deduplication key, each beyond the other's window."""
        for _ in range(size // 20):
            await self.add(1, "dedup", dedup=DedupSpec(key="same", window_ms=1))
            self.clock.now_ms += 10

    async def whole(self, size: int) -> None:
        """All of it at once."""
        for part in (self.idle, self.chains, self.backlog, self.keys, self.later, self.schedules, self.dedups):
            await part(size)
        await self.store.expire("plain", 100_000)


@asynccontextmanager
async def aged(server: PostgresServer) -> AsyncIterator[Aged]:
    """A store of its own, gone with the block."""
    found = Aged(server)
    await found.store.open()
    await found.store.register(found.session)
    try:
        yield found
    finally:
        await found.store.close()
        await found._all(f'DROP SCHEMA "{found.schema}" CASCADE')
