"""A job that waits for others, in a caller's transaction on PostgreSQL: what ends meanwhile is not missed."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from callers import Asyncpg, Caller, Psycopg, PsycopgAsync, connected
from servers import postgres
from support import burst, eventually, transitions, working

from holdfast import Handle, Holdfast, Permanent, Retry, State

_numbers = itertools.count(1)
PAIRS = 25


@pytest.fixture
def place() -> str:
    return f"postgresql://holdfast@127.0.0.1:{postgres().port}/postgres"


@pytest.fixture
def url(place: str) -> Iterator[str]:
    name = f"blocked_{os.getpid()}_{next(_numbers)}"
    yield postgres().url(name)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


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
        assert await store._value("SELECT count(*) FROM holdfast.blocker WHERE state IS NULL") == 0
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
