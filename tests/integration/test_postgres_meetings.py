"""Calls that meet a completion in the middle: each answers with what is there when both are done."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from servers import postgres
from support import PATIENCE, eventually, transitions, working

from holdfast import Continued, Holdfast, Job, Retry, State
from holdfast.store.contract import Complete, Conflict, NewJob, Session
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.listen import Doubt

_numbers = itertools.count(1)
SESSION = Session(id="s", name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(postgres().url().partition("?")[0], autocommit=True)


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"meeting_{os.getpid()}_{next(_numbers)}"
    yield name
    with connect() as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@asynccontextmanager
async def opened(schema: str) -> AsyncIterator[PostgresStore]:
    """A store with one worker's session."""
    store = PostgresStore(postgres().url(schema))
    await store.open()
    await store.register(SESSION)
    yield store
    await store.close()


def waiting(connection: psycopg.Connection[Any], function: str) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s", (f"%.{function}(%",)
    ).fetchone()
    return found is not None and found[0] > 0


async def met(store: PostgresStore, function: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """Return the answer of a call that began before the completion of the id's run, with a successor, was committed."""
    await store.enqueue("q", [NewJob(id="j", task="t", payload=b"1")])
    (job,) = (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed
    await store.enqueue("q", [NewJob(id="j", task="t", payload=b"2")], Conflict(on_conflict="update"))
    with connect() as other:
        async with store.begin() as transaction:
            await transaction.settle(SESSION, Complete(job.lease, b"done"))
            task = asyncio.ensure_future(call())
            await eventually(lambda: waiting(other, function))
    return await asyncio.wait_for(task, PATIENCE)


async def test_a_cancel_finds_the_successor_that_has_just_become_the_next_run(schema: str) -> None:
    async with opened(schema) as store:
        answer = await met(store, "cancel", lambda: store.cancel("q", "j"))
        assert (answer.reply, answer.state) == ("ok", State.WAITING)
        assert (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed == [], "a cancelled payload never runs"


async def test_a_delete_takes_the_run_that_holds_the_id_by_then(schema: str) -> None:
    async with opened(schema) as store:
        assert await met(store, "delete", lambda: store.delete("q", "j")) == "ok"
        assert (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed == []


async def test_a_completion_waits_for_a_busy_queue_into_which_its_chain_goes_on(schema: str) -> None:
    """The row of a queue with keys is only tried for; inside a handler's transaction nobody else would try again."""
    app = Holdfast(postgres().url(schema))

    @app.task(queue="keyed")
    async def second(n: int) -> int:
        return n * 2

    @app.task(queue="first", retry=Retry(failures=1))
    async def first(job: Job, n: int) -> Continued[int]:
        async with job.complete() as tx:
            tx.result = then = job.continue_with(second.options(key="k"), n)
        return then

    async with working(app, "first", "keyed"):
        await second.options(key="k").call(0)
        with connect() as other, connect() as looking:
            with other.transaction():
                other.execute(f"SELECT 1 FROM {schema}.queue WHERE name = 'keyed' FOR UPDATE")
                handle = await first.options(job_id="one").enqueue(21)
                await eventually(lambda: waiting(looking, "join_complete"))
            assert await handle.result(PATIENCE) == 42
        assert await transitions(app, "one") == ["enqueue", "claim", "complete"]


async def test_a_job_with_a_key_that_was_committed_while_a_worker_parked_wakes_it(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer saw nobody parked, and the worker no job: only a second look finds it before the poll."""
    monkeypatch.setattr(Doubt, "PAUSES", (0.02,) * 1000)
    woken = asyncio.Event()
    async with opened(schema) as store:
        ear = await store.listen(woken.set, lambda finished: None)
        session = msgspec.structs.replace(SESSION, id="listening", address=ear.address)
        await store.register(session)
        with connect() as other, other.transaction():
            other.execute(
                f"SELECT * FROM {schema}.enqueue(NULL, 'q', NULL, true, '{{j}}', 't', NULL, ARRAY[''::bytea],"
                " NULL, NULL, NULL, '{k}', NULL, NULL, NULL, NULL, NULL)"
            )
            assert (await store.settle_and_claim(session, [], ("q",), 1, park=True)).claimed == []
        await asyncio.wait_for(woken.wait(), PATIENCE)
        assert len((await store.settle_and_claim(session, [], ("q",), 1)).claimed) == 1
