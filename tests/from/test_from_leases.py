"""What docs/from says of leases: whose they are, what a vanished worker leaves, what a name is."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from places import STORES, place
from support import eventually, working

from holdfast import ConfigError, Counters, Holdfast, HookEvent, Job
from holdfast.store.contract import Session
from holdfast.testing import ManualClock, drain
from holdfast.worker.heartbeat import Heartbeat


def session(id: str) -> Session:
    """Return a worker of the queue "default", with one slot. All have one name, as in containers."""
    return Session(id=id, name="web-1", host="web", pid=1, queues=("default",), slots=1)


async def while_others_are_heard(app: Holdfast, clock: ManualClock, seconds: int) -> None:
    """So much time passes, in which another worker is heard: or else it would count as an outage of the store."""
    witness = session("witness")
    await app.store.register(witness)
    for _ in range(seconds):
        clock.advance(1)
        await app.store.extend(witness)
    await app.store.reap("default", but=witness.id)
    await app.store.leave(witness)


async def vanish(app: Holdfast, id: str, lease_ms: int = 15_000) -> None:
    """A worker claims this job, alone, and is never heard again."""
    gone = replace(session("gone"), lease_ms=lease_ms)
    await app.store.register(gone)
    (claimed,) = (await app.store.settle_and_claim(gone, (), ("default",), 1)).claimed
    assert claimed.lease.id == id


async def heard_now(app: Holdfast, clock: ManualClock) -> bool:
    """Return whether every worker was heard since the clock was moved."""
    return all(each.heard_at_ms == clock.now_ms for each in await app.workers())


async def test_the_lease_is_the_workers_and_has_fifteen_seconds(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with working(app):
        (info,) = await app.workers()
    assert info.expires_at_ms - info.heard_at_ms == 15_000


async def test_a_worker_has_the_longest_lease_of_its_tasks(app: Holdfast) -> None:
    @app.task(lease=60)
    async def slow() -> None: ...

    @app.task()
    async def work() -> None: ...

    async with working(app):
        (info,) = await app.workers()
    assert info.session.lease_ms == 60_000
    with pytest.raises(ConfigError, match="lease"):
        await app.worker(lease=30).run(burst=True)


async def test_a_lease_is_renewed_each_third_of_it(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []
    begin = Heartbeat.__init__

    def noted(self: Heartbeat, store: Any, session: Session, interval: float, *rest: Any) -> None:
        intervals.append(interval)
        begin(self, store, session, interval, *rest)

    @app.task()
    async def work() -> None: ...

    monkeypatch.setattr(Heartbeat, "__init__", noted)
    for options in ({}, {"lease": 60}, {"lease": 60, "heartbeat": 30}):
        async with working(app, **options):
            pass
    assert intervals == [5, 20, 30]
    with pytest.raises(ConfigError, match="heartbeat"):
        app.worker(lease=60, heartbeat=31)


async def test_a_slow_job_is_not_taken_away_while_its_worker_is_heard(app: Holdfast, clock: ManualClock) -> None:
    gate = asyncio.Event()

    @app.task()
    async def work(job: Job) -> Counters:
        await gate.wait()
        return job.counters

    async with working(app, lease=0.3), working(app, lease=0.3):
        handle = await work.enqueue()

        for _ in range(10):
            clock.advance(0.2)
            await eventually(lambda: heard_now(app, clock))
        gate.set()
        assert await handle.result() == Counters(attempts=1)


async def test_jobs_of_a_vanished_worker_come_back_first_and_count_a_stall(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work(job: Job) -> int:
        return job.counters.stalls

    async with app:
        await work.options(job_id="first").enqueue()
        await work.options(job_id="second").enqueue()
        await vanish(app, "first")
        assert [ran.id for ran in await drain(app)] == ["second"]
        await work.options(job_id="third").enqueue()
        await while_others_are_heard(app, clock, 16)
        assert [(ran.id, ran.result) for ran in await drain(app)] == [("first", 1), ("third", 0)]


async def test_upkeep_finds_stalled_jobs_where_no_worker_is_alive(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.options(job_id="a").enqueue()
        await vanish(app, "a", lease_ms=300)
        async with app.maintainer():

            async def is_back() -> bool:
                return (await handle.job()).state == "waiting"

            await eventually(is_back)
            assert (await handle.job()).counters.stalls == 1


async def test_the_third_stall_alone_is_final_and_found_by_others(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.options(job_id="a").enqueue()
        for _ in range(3):
            await vanish(app, "a")
            await while_others_are_heard(app, clock, 16)
        job = await handle.job()
        assert await drain(app) == []
    assert job.error is not None
    assert (job.state, job.counters.stalls, job.error.type) == ("failed", 3, "Stalled")


async def test_what_a_declared_dead_worker_does_counts_no_more(app: Holdfast, clock: ManualClock) -> None:
    reasons: list[str | None] = []

    @app.task()
    async def work(job: Job) -> int:
        if job.attempt == 1:
            try:
                await job.signal.wait()
            finally:
                reasons.append(job.signal.reason)
        return job.attempt

    heard: list[HookEvent] = []
    app.on("lease_lost")(heard.append)
    async with working(app, lease=0.6) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        (before,) = await app.workers()
        while not heard:
            await while_others_are_heard(app, clock, 2)
        assert await handle.result() > 1
        alive = [each.session.id for each in await app.workers() if each.alive]
    assert reasons[0] == "lease_lost"
    assert before.session.id not in alive


async def test_a_worker_that_was_declared_dead_may_end_instead(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None: ...

    async with working(app, lease=0.6, on_evicted="exit") as running:
        while not running.task.done():
            await while_others_are_heard(app, clock, 2)
        assert (await running.task).out


async def test_a_handler_hears_that_the_store_is_lost(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    reasons: list[str | None] = []

    @app.task()
    async def work(job: Job) -> int:
        if job.attempt == 1:
            reasons.append(await job.signal.wait())
            job.signal.check()
        return job.counters.releases

    async with working(app, lease=0.9) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await eventually(lambda: reasons)
        other.close()
        assert await handle.result() == 0
    assert reasons == ["store_lost"]


@pytest.mark.parametrize("kind", STORES)
async def test_two_workers_of_one_name_do_not_disturb_each_other(kind: str, tmp_path: Path) -> None:
    """As in containers: all have one hostname and are process 1. One ends while the other works on."""
    gate = asyncio.Event()
    with place(kind, tmp_path) as url:
        app = Holdfast(url)

        @app.task()
        async def work(job: Job) -> Counters:
            await gate.wait()
            return job.counters

        async with working(app, name="web-1", slots=1) as first, working(app, name="web-1", slots=1) as second:
            one, two = await work.enqueue(), await work.enqueue()
            await eventually(lambda: first.worker.active and second.worker.active)
            known = await app.workers()
            holders = {(await each.job()).worker for each in (one, two)}
            gate.set()
            await first.end()
            assert [await one.result(), await two.result()] == [Counters(attempts=1)] * 2
            left = [each.session.id for each in await app.workers() if each.alive]
            assert await work.call() == Counters(attempts=1)
    assert [each.session.name for each in known] == ["web-1", "web-1"]
    assert holders == {each.session.id for each in known}
    assert len(left) == 1


async def test_a_worker_is_named_after_host_and_process(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with working(app) as running:
        (info,) = await app.workers()
    assert running.worker.name == info.session.name == f"{socket.gethostname()}-{os.getpid()}"
    assert info.session.id != info.session.name
