"""A job that waits for others, in a caller's transaction on PostgreSQL: what ends meanwhile is not missed."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

import psycopg
import pytest
from callers import Asyncpg, Caller, Psycopg, PsycopgAsync, connected
from schemas import drop
from servers import postgres
from support import burst, eventually, postgres_value, transitions, working

from holdfast import Handle, Holdfast, Permanent, Retry, State
from holdfast.core.chain import BlockerRef
from holdfast.core.job import ErrorRecord
from holdfast.store.contract import Complete, Conflict, NewJob, Retried, Session
from holdfast.store.postgres import PostgresStore

_numbers = itertools.count(1)
PAIRS = 25


@pytest.fixture
def place() -> str:
    return f"postgresql://holdfast@127.0.0.1:{postgres().port}/postgres"


@pytest.fixture
def url(place: str) -> Iterator[str]:
    name = f"blocked_{os.getpid()}_{next(_numbers)}"
    yield postgres().url(name)
    drop(name)


def declare(app: Holdfast) -> Any:
    """Return a task that gives its number, or fails for good at a negative one."""

    @app.task(retry=Retry(failures=1))
    async def number(n: int) -> int:
        if n < 0:
            raise Permanent("below nought")
        return n

    return number


@pytest.mark.parametrize("kind", [Psycopg, PsycopgAsync, Asyncpg])
async def test_a_job_that_ends_while_the_transaction_is_open_is_not_waited_for(
    app: Holdfast, place: str, kind: type[Caller]
) -> None:
    number = declare(app)
    async with working(app), connected(kind, place) as caller:
        first = await number.options(job_id="first", delay=60).enqueue(1)
        then = await caller.enqueue(app, number, 2, job_id="then", blockers=[first])
        await app.queue("default").promote("first")
        assert await first.result(10) == 1  # its worker did not wait for the caller
        assert then.state == State.BLOCKED
        await caller.commit()
        assert await then.result(10) == 2
        assert await transitions(app, "then") == ["enqueue", "unblock", "claim", "complete"]


async def test_a_failure_while_the_transaction_is_open_is_followed(app: Holdfast, place: str) -> None:
    number = declare(app)
    async with app, connected(PsycopgAsync, place) as caller:
        first = await number.options(job_id="first").enqueue(-1)
        await caller.enqueue(app, number, 2, job_id="fails", blockers=[first])
        await caller.enqueue(app, number, 3, job_id="goes", blockers=[first], on_blocker_failed="cancel")
        assert (await burst(app)).failed == 1
        await caller.commit()
        assert (await app.status("default", "fails")).state == State.FAILED
        assert (await app.status("default", "goes")).state == State.CANCELLED


async def test_one_that_was_deleted_meanwhile_counts_as_cancelled(app: Holdfast, place: str) -> None:
    number = declare(app)
    async with app, connected(PsycopgAsync, place) as caller:
        first = await number.options(job_id="first").enqueue(1)
        await caller.enqueue(app, number, 2, job_id="then", blockers=[first])
        await app.delete_chain("default", "first")
        await caller.commit()
        assert (await app.status("default", "then")).state == State.FAILED


async def test_a_savepoint_that_is_rolled_back_takes_what_it_waited_for_along(app: Holdfast, place: str) -> None:
    number = declare(app)
    async with app, connected(PsycopgAsync, place) as caller:
        first = await number.options(job_id="first").enqueue(1)
        await caller.enqueue(app, number, 2, job_id="before", blockers=[first])
        await caller.savepoint()
        await caller.enqueue(app, number, 3, job_id="inside", blockers=[first])
        await caller.rollback_to()
        await burst(app)
        await caller.commit()
        assert (await burst(app)).completed == 1
        store: Any = app.store
        assert await postgres_value(store, "SELECT count(*) FROM holdfast.blocker WHERE state IS NULL") == 0
        assert await transitions(app, "inside") == []


async def test_commits_and_completions_that_race_strand_nobody(app: Holdfast, place: str) -> None:
    """Each caller commits at about the time at which a worker completes both of what its job waits for."""
    number = declare(app)

    async def pair(n: int) -> Handle[int]:
        async with connected(PsycopgAsync, place) as caller:
            both = [await number.options(job_id=f"{side}-{n}").enqueue(n) for side in "ab"]
            handle = await caller.enqueue(app, number, n, job_id=f"then-{n}", blockers=both[:: 1 if n % 2 else -1])
            await caller.enqueue(app, number, n, job_id=f"also-{n}", blockers=both[1:])
            if n % 3:
                await both[0].result(20)
            await caller.commit()
            return handle

    async with working(app, slots=4):
        handles = await asyncio.gather(*(pair(n) for n in range(PAIRS)))
        assert [await handle.result(20) for handle in handles] == list(range(PAIRS))

        async def all_done() -> bool:
            states = [(await app.status("default", f"also-{n}")).state for n in range(PAIRS)]
            return all(state is State.COMPLETED for state in states)

        await eventually(all_done)


# --- without a caller's transaction: the locks of one call


@pytest.mark.parametrize("end", ["complete", "retry", "cancel"])
@pytest.mark.parametrize("apart", [True, False])
async def test_a_successor_that_changes_while_it_is_waited_for_strands_nobody(
    url: str, place: str, end: str, apart: bool
) -> None:
    """A job comes in that waits for it, in a call that is done again and again, as something else is locked."""
    store = PostgresStore(url)
    await store.open()
    session = Session(id="w", name="w", host="here", pid=1, queues=("slow",), lease_ms=60_000)
    await store.register(session)
    await store.enqueue("slow", [NewJob(id="s", task="t", payload=b"")])
    (active,) = (await store.settle_and_claim(session, [], ["slow"], 1)).claimed
    (next_one,) = await store.enqueue("slow", [NewJob(id="s", task="t", payload=b"")], Conflict(on_conflict="update"))
    (locked,) = await store.enqueue("q", [NewJob(id="locked", task="t", payload=b"")])
    successor, other = BlockerRef("slow", "s", next_one.run), BlockerRef("q", "locked")
    waits = [(successor,), (other,)] if apart else [(other, successor)]
    jobs = [NewJob(id=f"{n}", task="t", payload=b"", blockers=refs) for n, refs in enumerate(waits)]
    error = ErrorRecord(type="E", message="again")
    endings: dict[str, Callable[[], Awaitable[Any]]] = {
        "complete": lambda: store.settle_and_claim(session, [Complete(active.lease, b"1")], [], 0),
        "retry": lambda: store.settle_and_claim(session, [Retried(active.lease, error)], [], 0),
        "cancel": lambda: store.cancel("slow", "s", "signal"),
    }
    async with (
        await psycopg.AsyncConnection.connect(place) as holder,
        await psycopg.AsyncConnection.connect(place, autocommit=True) as looker,
    ):
        schema = url.partition("schema=")[2]
        await holder.execute(f'SELECT 1 FROM "{schema}".job WHERE run = %s FOR UPDATE', (locked.run,))
        cursor = await looker.execute("SELECT clock_timestamp()")
        ((since,),) = await cursor.fetchall()
        coming = asyncio.ensure_future(store.enqueue("q", jobs))
        await eventually(lambda: was_asked(looker, since))
        await endings[end]()
        assert not coming.done()
        await holder.rollback()
        await coming
    await store.complete_chain("slow", "s", None, b"2")
    await store.complete_chain("q", "locked", None, b"3")
    job = await store.get("q", "0")
    assert job is not None
    assert job.state is (State.FAILED if end == "cancel" else State.WAITING), job.error
    await store.close()


async def was_asked(connection: psycopg.AsyncConnection[Any], since: datetime) -> bool:
    """True when a call of `enqueue` is under way, or was the last of its connection, that began after an instant."""
    cursor = await connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%.enqueue(p_clock%%' AND query_start > %s", (since,)
    )
    row = await cursor.fetchone()
    assert row is not None
    return bool(row[0])
