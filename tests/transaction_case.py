"""What holds for a job that is enqueued in a caller's own transaction, whatever the driver and the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from callers import Caller, connected
from support import burst, eventually, transitions, working

from holdfast import ConfigError, Continued, Dedup, Holdfast, Job, JobMissing, State
from holdfast.store.contract import Session
from holdfast.store.sqlite.transaction.commit import watched

READY = "CREATE TABLE {} (n INTEGER)"


def declare(app: Holdfast) -> Any:
    """Return a task that doubles."""

    @app.task()
    async def double(n: int) -> int:
        return n * 2

    return double


async def exists(app: Holdfast, id: str) -> bool:
    try:
        await app.status("default", id)
    except JobMissing:
        return False
    return True


async def parked(app: Holdfast) -> list[bool]:
    """Return the wake-ups that come from now on to a session which waits for jobs."""
    woken: list[bool] = []
    listener = await app.store.listen(lambda: woken.append(True), lambda finished: None)
    session = Session(
        id="s", name="w", host="h", pid=1, queues=("default",), lease_ms=600_000, slots=5, address=listener.address
    )
    await app.store.register(session)
    assert (await app.store.settle_and_claim(session, (), ["default"], 5, park=True)).claimed == []
    return woken


class TransactionCase:
    """Run by one class for each store, with a fixture `kind` for each driver and `place` for what it connects to."""

    async def test_a_job_is_there_once_the_caller_commits(
        self, app: Holdfast, kind: type[Caller], place: str, table: str
    ) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            handle = await caller.enqueue(app, double, 4, job_id="one")
            await caller.execute(f"INSERT INTO {table} VALUES (1)")
            assert (handle.id, handle.status, handle.state) == ("one", "queued", State.WAITING)
            assert not await exists(app, "one")
            assert await transitions(app, "one") == []
            await caller.commit()
            assert await transitions(app, "one") == ["enqueue"]
            assert (await burst(app)).completed == 1
            assert await handle.result() == 8

    async def test_a_job_that_is_rolled_back_never_was(
        self, app: Holdfast, kind: type[Caller], place: str, table: str
    ) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            await caller.execute(f"INSERT INTO {table} VALUES (1)")
            await caller.enqueue(app, double, 4, job_id="one")
            await caller.rollback()
            assert not await exists(app, "one")
            assert [event async for event in app.events()] == []
            assert (await burst(app)).started == 0
            assert (await caller.enqueue(app, double, 4, job_id="one")).status == "queued"

    async def test_a_commit_wakes_a_worker_that_would_not_look_by_itself(
        self, app: Holdfast, kind: type[Caller], place: str
    ) -> None:
        double = declare(app)
        async with working(app, poll=3600), connected(kind, place) as caller:
            for number in range(3):
                handle = await caller.enqueue(app, double, number)
                await caller.commit()
                assert await handle.result() == 2 * number

    async def test_a_commit_wakes_and_a_rollback_does_not(self, app: Holdfast, kind: type[Caller], place: str) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            woken = await parked(app)
            await caller.enqueue(app, double, 1)
            await caller.rollback()
            await eventually(lambda: watched() == 0, "the rollback is known")
            await caller.enqueue(app, double, 2)
            await caller.enqueue(app, double, 3)
            assert not woken
            await caller.commit()
            await eventually(lambda: woken)
            await eventually(lambda: watched() == 0, "the commit is known")
            assert woken == [True]

    async def test_a_job_that_waits_for_another_comes_in_with_the_commit(
        self, app: Holdfast, kind: type[Caller], place: str, table: str
    ) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            first = await double.options(job_id="first").enqueue(1)
            await caller.enqueue(app, double, 2, job_id="gone", blockers=[first])
            await caller.rollback()
            then = await caller.enqueue(app, double, 3, job_id="then", blockers=[first])
            assert then.state == State.BLOCKED
            await caller.commit()
            assert (await burst(app)).completed == 2
            assert await then.result() == 6
            assert await transitions(app, "then") == ["enqueue", "unblock", "claim", "complete"]
            assert not await exists(app, "gone")

    async def test_a_savepoint_that_is_rolled_back_takes_only_its_own(
        self, app: Holdfast, kind: type[Caller], place: str, table: str
    ) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            await caller.enqueue(app, double, 1, job_id="before")
            await caller.savepoint()
            await caller.enqueue(app, double, 2, job_id="inside")
            await caller.rollback_to()
            await caller.enqueue(app, double, 3, job_id="after")
            await caller.commit()
            assert [event.id async for event in app.events()] == ["before", "after"]
            assert not await exists(app, "inside")
            assert (await burst(app)).completed == 2

    @pytest.mark.parametrize("first_commits", [True, False])
    async def test_the_second_of_two_waits_for_the_end_of_the_first(
        self, app: Holdfast, kind: type[Caller], place: str, first_commits: bool
    ) -> None:
        double = declare(app)
        async with app, connected(kind, place) as first, connected(kind, place) as second:
            assert (await first.enqueue(app, double, 1, job_id="one")).status == "queued"
            waiting = asyncio.create_task(second.enqueue(app, double, 2, job_id="one"))
            done, _ = await asyncio.wait({waiting}, timeout=0.05)
            assert not done
            await (first.commit() if first_commits else first.rollback())
            assert (await waiting).status == ("duplicate" if first_commits else "queued")
            await second.commit()
            assert await transitions(app, "one") == ["enqueue"]

    async def test_every_option_holds_as_without_a_connection(
        self, app: Holdfast, kind: type[Caller], place: str
    ) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            options = {"key": "a", "priority": 7, "headers": {"x": "ü\"'"}, "delay": 60, "timeout": 5}
            await caller.enqueue(app, double, 1, job_id="one", **options)
            again = await caller.enqueue(app, double, 2, job_id="one", on_conflict="update")
            assert (again.status, again.state) == ("updated", State.WAITING)
            dedup = Dedup("k")
            assert (await caller.enqueue(app, double, 3, dedup=dedup)).status == "queued"
            assert (await caller.enqueue(app, double, 3, dedup=dedup)).status == "duplicate"
            await caller.commit()
            record = await app.status("default", "one")
            assert record.state is State.WAITING
            assert (await burst(app)).completed == 2
            assert (await caller.enqueue(app, double, 2, job_id="one")).status == "completed"

    async def test_many_are_all_there_or_none(self, app: Holdfast, kind: type[Caller], place: str) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            counts = await caller.enqueue_many(app, (double.args(n) for n in range(25)), chunk=10)
            assert (counts.queued, counts.total) == (25, 25)
            await caller.rollback()
            assert [event async for event in app.events()] == []
            await caller.enqueue_many(app, (double.args(n) for n in range(25)), chunk=10)
            await caller.commit()
            assert (await burst(app)).completed == 25

    async def test_hooks_are_not_told_of_what_may_be_rolled_back(
        self, app: Holdfast, kind: type[Caller], place: str
    ) -> None:
        double, told = declare(app), []
        app.on("*")(lambda happening: told.append(happening.name))
        async with app, connected(kind, place) as caller:
            await caller.enqueue(app, double, 1)
            assert told == []

    async def test_a_call_would_wait_for_ever(self, app: Holdfast, kind: type[Caller], place: str) -> None:
        double = declare(app)
        async with app, connected(kind, place) as caller:
            with pytest.raises(ConfigError, match="before your commit"):
                await double.options(connection=caller.connection).call(1)
            with pytest.raises(ConfigError, match="before your commit"):
                await app.queue("plain").call(1, connection=caller.connection)

    async def test_an_update_that_is_refused_is_told(self, app: Holdfast, kind: type[Caller], place: str) -> None:
        double = declare(app)

        @app.task(queue="first")
        async def first(job: Job, n: int) -> Continued[int]:
            return job.continue_with(double.options(delay=60), n)

        async with app, connected(kind, place) as caller:
            await first.enqueue(1)
            await burst(app, "first")
            (later,) = (await app.jobs(queue="default")).jobs
            with pytest.raises(ConfigError, match="is a later job of a chain"):
                await caller.enqueue(app, double, 2, job_id=later.id, on_conflict="update")
