"""Claims on PostgreSQL while a transaction is held open: what was claimed is not walked over again and again."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from servers import postgres
from support import eventually, postgres_value

from holdfast.client import new_id
from holdfast.store.contract import Complete, NewJob, Session
from holdfast.store.postgres import PostgresStore

_numbers = itertools.count(1)
JOBS = 5_000
ROOM = 250
PAYLOAD = b'{"data": "' + b"x" * 100 + b'"}'
PLACE = "postgresql://holdfast@127.0.0.1:{}/postgres"


class Drain:
    """A store with one worker, whose jobs are done as fast as they are claimed."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.session = Session(id=new_id(), name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)

    async def add(self, count: int = 1, **fields: Any) -> None:
        """So many more jobs wait."""
        jobs = [NewJob(id=new_id(), task="t", payload=PAYLOAD, fresh=True, **fields) for _ in range(count)]
        await self.store.enqueue("q", jobs)

    async def take(self, room: int) -> list[int]:
        """Return the priorities of the jobs that came next; they are done."""
        turn = await self.store.settle_and_claim(self.session, [], ("q",), room)
        done = [Complete(job.lease, b"null") for job in turn.claimed]
        await self.store.settle_and_claim(self.session, done, (), 0)
        return [job.priority for job in turn.claimed]

    async def marked(self) -> bool:
        return bool(await postgres_value(self.store, "SELECT EXISTS (SELECT 1 FROM holdfast.front)"))


@asynccontextmanager
async def draining() -> AsyncIterator[Drain]:
    """A store of its own, gone with the block."""
    name = f"front_{os.getpid()}_{next(_numbers)}"
    store = PostgresStore(postgres().url(name))
    await store.open()
    found = Drain(store)
    await store.register(found.session)
    yield found
    await store.close()
    with psycopg.connect(PLACE.format(postgres().port), autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{name}" CASCADE')


async def test_a_mark_is_left_where_a_claim_went_far_and_hides_nothing() -> None:
    place = PLACE.format(postgres().port)
    async with (
        draining() as drain,
        await psycopg.AsyncConnection.connect(place) as idle,
        await psycopg.AsyncConnection.connect(place) as caller,
    ):
        await idle.execute("SELECT pg_current_xact_id()")
        await drain.add(JOBS)
        late: Any = drain.store.join(caller).enqueue("q", [NewJob(id="late", task="t", payload=b"{}", priority=3)])
        assert (await late)[0].status == "queued"
        while not await drain.marked():
            assert len(await drain.take(ROOM)) == ROOM, "a mark is left before all is done"
        await drain.add(priority=5)
        assert (await drain.take(ROOM))[0] == 5  # what is put in front of the mark removes it
        while not await drain.marked():
            assert len(await drain.take(ROOM)) == ROOM, "a mark is left before all is done"
        await caller.commit()  # it could not know of the mark

        async def found() -> bool:
            await drain.add()
            return 3 in await drain.take(1)

        await eventually(found)


async def test_without_a_transaction_that_is_open_there_is_no_mark() -> None:
    async with draining() as drain:
        await drain.add(ROOM * 2)
        assert len(await drain.take(ROOM)) == ROOM
        assert not await drain.marked()


async def test_all_versions_of_a_job_stay_in_its_page() -> None:
    """No index is touched by a claim or a completion, even when no old version can be removed."""
    async with draining() as drain, await psycopg.AsyncConnection.connect(PLACE.format(postgres().port)) as idle:
        await idle.execute("SELECT pg_current_xact_id()")
        await drain.add(500)
        before = await postgres_value(drain.store, "SELECT pg_relation_size('holdfast.job')")
        for _ in range(5):
            await drain.take(100)
        assert await postgres_value(drain.store, "SELECT pg_relation_size('holdfast.job')") == before
