"""Stopping: drain, signal, hand back; and a worker that must end although its store does not answer."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support import Flaky, Running, burst, eventually, run, working

from holdfast import Counters, Holdfast, Job, State, StoreError
from holdfast.store import open_store
from holdfast.worker import Report


async def test_a_stopped_worker_finishes_what_it_runs_and_claims_nothing_more(app: Holdfast) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task()
    async def work() -> str:
        started.set()
        await go.wait()
        return "done"

    async with working(app, slots=1, drain=20) as running:
        first = await work.enqueue()
        await started.wait()
        second = await work.enqueue()
        running.worker.stop()
        go.set()
        report = await running.task
        assert await first.result() == "done"
        assert (await second.job()).state is State.WAITING
        assert (await second.job()).counters == Counters()
    assert report == Report(started=1, completed=1)


def answer_late(store: Flaky, claimed: asyncio.Event, go: asyncio.Event) -> None:
    """A turn that has claimed something says so, and is not heard of before it may be."""
    inner = store.settle_and_claim

    async def slow(*args: Any, **kwargs: Any) -> Any:
        turn = await inner(*args, **kwargs)
        if turn.claimed:
            claimed.set()
            await go.wait()
        return turn

    store.settle_and_claim = slow


async def test_what_is_being_claimed_when_the_worker_stops_is_drained_like_the_rest(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Flaky(open_store(url))
    app, claimed, go, ended = Holdfast(store=store), asyncio.Event(), asyncio.Event(), asyncio.Event()
    answer_late(store, claimed, go)

    @app.task()
    async def work() -> str:
        await ended.wait()
        return "done"

    async with working(app, drain=20, grace=5) as running:
        handle = await work.enqueue()
        await claimed.wait()
        running.worker.stop()
        go.set()
        await eventually(lambda: running.worker.active)
        ended.set()
        report = await running.task
        assert await handle.result() == "done"
    assert report == Report(started=1, completed=1)
    assert "still run" not in caplog.text


async def test_a_claim_that_comes_after_the_shutdown_is_handed_back(url: str) -> None:
    """Nobody is left who would tell its handler to stop."""
    store = Flaky(open_store(url))
    app, claimed, go = Holdfast(store=store), asyncio.Event(), asyncio.Event()
    answer_late(store, claimed, go)

    @app.task()
    async def work() -> None:
        await asyncio.Event().wait()

    async with app:
        worker = app.worker(drain=60, grace=0.05)
        running = Running(worker)
        handle = await work.enqueue()
        await claimed.wait()
        worker.stop()
        await eventually(
            lambda: worker._run is not None and worker._run.parts.recovery.last_try is not None, "the shutdown is over"
        )
        go.set()
        report = await asyncio.wait_for(running.task, 20)
        job = await handle.job()
    assert job.state is State.WAITING
    assert job.counters == Counters(attempts=1, releases=1)
    assert report == Report(released=1)


async def test_after_the_drain_handlers_are_told_and_what_heeds_the_signal_costs_one_release(app: Holdfast) -> None:
    reasons = []

    @app.task()
    async def polite(job: Job) -> None:
        reasons.append(await job.signal.wait())
        job.signal.check()

    @app.task()
    def polite_in_thread(job: Job) -> None:
        job.signal.wait_in_thread(20)
        reasons.append(job.signal.reason)
        job.signal.check()

    async with working(app, drain=0.05, grace=20) as running:
        handles = [await polite.enqueue(), await polite_in_thread.enqueue()]
        await eventually(lambda: running.worker.active == 2)
        report = await running.end()
        jobs = [await handle.job() for handle in handles]
    assert reasons == ["shutdown", "shutdown"]
    assert [job.state for job in jobs] == [State.WAITING] * 2
    assert [job.counters for job in jobs] == [Counters(attempts=1, releases=1)] * 2
    assert report == Report(started=2, released=2)


async def test_a_handler_that_finishes_on_the_signal_has_completed(app: Holdfast) -> None:
    @app.task()
    async def quick(job: Job) -> str:
        await job.signal.wait()
        return "just in time"

    async with working(app, drain=0.05, grace=20) as running:
        handle = await quick.enqueue()
        await eventually(lambda: running.worker.active)
        assert await running.end() == Report(started=1, completed=1)
        assert await handle.result() == "just in time"


@pytest.mark.parametrize("kind", ["deaf", "deaf_thread", "stubborn"])
async def test_what_does_not_stop_is_handed_back_and_its_worker_ends(app: Holdfast, kind: str) -> None:
    go, go_thread = asyncio.Event(), threading.Event()

    @app.task()
    async def deaf() -> None:
        await go.wait()

    @app.task()
    def deaf_thread() -> None:
        go_thread.wait(20)

    @app.task()
    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with app:
        running = Running(app.worker(drain=0.05, grace=0.05))
        first = await app.registry.tasks[kind].options(job_id="first").enqueue()
        await eventually(lambda: running.worker.active)
        second = await app.registry.tasks[kind].options(job_id="second", delay=60).enqueue()
        await app.queue("default").promote("second")
        await eventually(lambda: running.worker.active == 2)
        report = await running.end()
        job = await first.job()
        assert job.state is State.WAITING
        assert job.counters == Counters(attempts=1, releases=1)
        left = [] if kind == "deaf" else ["default/first", "default/second"]
        assert report == Report(started=2, released=2, left=left)
        assert await app.workers() == []
        go.set()
        go_thread.set()
        order = [each.id for each in (await app.jobs()).jobs]
        assert order == ["second", "first"]
        await burst(app, slots=1)
        assert (await second.job()).state is State.COMPLETED


async def test_a_released_job_goes_to_the_front_of_its_queue(app: Holdfast) -> None:
    go = asyncio.Event()
    order = []

    @app.task()
    async def work(job: Job) -> None:
        order.append(job.id)
        await go.wait()

    async with app:
        for id in ("first", "second", "third"):
            await work.options(job_id=id).enqueue()
        running = Running(app.worker(slots=1, drain=0, grace=0.05))
        await eventually(lambda: order)
        await running.end()
        go.set()
        await burst(app, slots=1)
    assert order == ["first", "first", "second", "third"]


async def test_a_stop_without_a_drain_skips_one_that_is_under_way(app: Holdfast) -> None:
    @app.task()
    async def long(job: Job) -> None:
        await job.signal.wait()
        job.signal.check()

    async with working(app, drain=300, grace=20) as running:
        await long.enqueue()
        await eventually(lambda: running.worker.active)
        running.worker.stop()
        assert running.worker.active == 1
        running.worker.stop(drain=False)
        report = await running.task
    assert report == Report(started=1, released=1)


async def test_stopping_twice_is_stopping_once(app: Holdfast) -> None:
    go = asyncio.Event()

    @app.task()
    async def long() -> str:
        await go.wait()
        return "done"

    async with working(app, drain=300) as running:
        handle = await long.enqueue()
        await eventually(lambda: running.worker.active)
        ends = [asyncio.ensure_future(running.worker.stop()) for _ in range(3)]
        await eventually(lambda: running.worker._run is not None and running.worker._run.stopping is not None)
        assert not running.worker._run.parts.shutdown.hurry.is_set(), "the drain goes on"
        go.set()
        assert await asyncio.gather(*ends) == [Report(started=1, completed=1)] * 3
        assert await handle.result() == "done"


async def test_a_worker_is_stopped_from_another_thread(app: Holdfast) -> None:
    @app.task()
    async def ping() -> None: ...

    async with working(app) as running:
        await asyncio.to_thread(running.worker.stop)
        await asyncio.wait_for(running.task, 20)


async def test_stopping_while_the_store_does_not_answer_ends_the_worker(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)
    started, go = asyncio.Event(), asyncio.Event()

    @app.task()
    async def work() -> None:
        started.set()
        await go.wait()

    async with app:
        running = Running(app.worker(drain=5, grace=0.1))
        await work.enqueue()
        await started.wait()
        for method in ("settle_and_claim", "held", "leave"):
            store.refuse(method, StoreError("away"), times=10_000)
        go.set()
        report = await running.end()
        assert report.lost == 1
        assert "outcomes_lost: the store could not settle 1 attempts" in caplog.text
        assert "leave_failed: " in caplog.text


async def test_what_a_lost_reply_claimed_is_handed_back_by_a_worker_that_stops(url: str) -> None:
    """Whatever the store gave it, and it never heard of, costs a release and no stall."""
    store = Flaky(open_store(url))
    app = Holdfast(store=store)
    trouble = asyncio.Event()

    @app.task()
    async def work() -> None: ...

    app.on("worker_error")(lambda happening: trouble.set())
    async with app:
        worker = app.worker()
        running = Running(worker)
        await eventually(lambda: worker.healthy)
        store.lose("settle_and_claim", StoreError("the reply was lost"))
        store.refuse("held", StoreError("and nobody answers"), times=2)
        handle = await work.enqueue()
        await trouble.wait()
        assert (await handle.job()).state is State.ACTIVE
        report = await running.end()
        job = await handle.job()
    assert job.state is State.WAITING
    assert job.counters == Counters(attempts=1, releases=1)
    assert report == Report(released=1)


async def test_start_and_stop_at_once(app: Holdfast) -> None:
    @app.task()
    async def ping() -> None: ...

    async with app:
        worker = app.worker()
        for _ in range(5):
            task: asyncio.Task[Any] = asyncio.create_task(worker.run())
            await asyncio.sleep(0)
            worker.stop()
            await asyncio.wait_for(task, 20)


async def test_a_worker_whose_task_is_cancelled_hands_its_jobs_back(app: Holdfast) -> None:
    @app.task()
    async def long() -> None:
        await asyncio.Event().wait()

    async with app:
        running = Running(app.worker())
        handle = await long.enqueue()
        await eventually(lambda: running.worker.active)
        running.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.task
        job = await handle.job()
        assert await app.workers() == []
    assert job.state is State.WAITING
    assert job.counters == Counters(attempts=1, releases=1)


def test_a_worker_may_start_again_in_another_loop(app: Holdfast) -> None:
    @app.task()
    async def ping() -> str:
        return "pong"

    worker = app.worker()

    async def once() -> None:
        async with app:
            running = Running(worker)
            assert await ping.call() == "pong"
            assert (await running.end()).completed == 1

    run(once())
    run(once())
