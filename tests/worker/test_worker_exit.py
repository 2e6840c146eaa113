"""How a worker's end is told: that it stops and why, and that it is out, though nobody asked it to."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest
from support import Flaky, Running, burst, eventually, evict, working

from holdfast import Holdfast, HookEvent, Job, StoreError, StoreTooNew
from holdfast.store import open_store


@pytest.fixture
def heard(app: Holdfast) -> list[tuple[str, str]]:
    """What a hook on each of them was told, in order."""
    told: list[tuple[str, str]] = []
    for name in ("worker_stopping", "worker_out", "worker_stopped"):
        app.on(name)(lambda each: told.append((each.name, "" if each.name == "worker_stopped" else each.detail)))
    return told


def serve(app: Holdfast) -> Any:
    @app.task()
    async def work(job: Job) -> str:
        return await job.signal.wait()

    return work


STOPPED = ("worker_stopped", "")


async def test_a_worker_says_that_it_stops_before_it_has_stopped(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    work = serve(app)
    async with working(app, drain=0.05, grace=5) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        running.worker.stop()
        await eventually(lambda: heard == [("worker_stopping", "stop")])
        running.worker.stop()
        report = await running.task
        assert await handle.result() == "shutdown"
    assert heard == [("worker_stopping", "stop"), STOPPED]
    assert report.out is None


async def test_a_caller_says_why(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    serve(app)
    async with working(app) as running:
        running.worker.stop(why="a new release")
        await running.task
    assert heard == [("worker_stopping", "a new release"), STOPPED]


async def test_a_signal_is_named(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    serve(app)
    async with app:
        running = Running(app.worker(), signals=True)
        await eventually(lambda: running.worker.healthy)
        os.kill(os.getpid(), signal.SIGTERM)
        await running.task
    assert heard == [("worker_stopping", "SIGTERM"), STOPPED]


async def test_a_burst_stops_for_lack_of_work(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    serve(app)
    async with app:
        assert (await burst(app)).out is None
    assert heard == [("worker_stopping", "burst"), STOPPED]


async def test_a_worker_that_is_cancelled_says_so(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    serve(app)
    async with app:
        running = Running(app.worker(grace=0.2))
        await eventually(lambda: running.worker.healthy)
        running.task.cancel()
        await asyncio.wait([running.task])
    assert heard == [("worker_stopping", "cancelled")]


async def test_a_worker_that_ends_for_its_lost_lease_is_out(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    serve(app)
    async with working(app, lease=0.6, on_evicted="exit") as running:
        await evict(app)
        report = await running.task
    assert report.out == "evicted"
    assert heard == [("worker_stopping", "evicted"), ("worker_out", "evicted"), STOPPED]


async def test_a_worker_that_begins_anew_is_not_out(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    serve(app)
    lost: list[HookEvent] = []
    app.on("lease_lost")(lost.append)
    async with working(app, lease=0.6) as running:
        await evict(app)
        await eventually(lambda: lost)
        report = await running.end()
    assert report.out is None
    assert heard == [("worker_stopping", "stop"), STOPPED]


async def test_a_worker_that_leaves_a_thread_behind_is_out(app: Holdfast, heard: list[tuple[str, str]]) -> None:
    go = threading.Event()

    @app.task(timeout=0.05)
    def stuck() -> None:
        go.wait()

    try:
        async with working(app, lease=0.3, on_stuck="exit", grace=0.05) as running:
            await stuck.enqueue()
            report = await running.task
    finally:
        go.set()
    assert (report.out, report.stuck) == ("stuck", 1)
    assert heard == [("worker_stopping", "stuck"), ("worker_out", "stuck"), STOPPED]


async def test_a_store_that_became_too_new_puts_its_worker_out(url: str) -> None:
    """Its handlers are told at once: nothing of what they do can be settled."""
    flaky = Flaky(open_store(url))
    app = Holdfast(store=flaky)
    heard: list[tuple[str, str, Any]] = []
    for name in ("worker_stopping", "worker_out"):
        app.on(name)(lambda each: heard.append((each.name, each.detail, each.error)))
    work = serve(app)
    error = StoreTooNew("version 99")
    async with working(app, drain=60, grace=0.05) as running:
        await work.enqueue()
        await eventually(lambda: running.worker.active)
        flaky.refuse("settle_and_claim", error, times=1_000)
        report = await running.task
    assert heard == [("worker_stopping", "store_too_new", None), ("worker_out", "store_too_new", error)]
    assert (report.out, report.lost, report.completed) == ("store_too_new", 1, 0)


async def test_a_store_that_is_too_new_at_the_start_is_raised_and_told(url: str) -> None:
    flaky = Flaky(open_store(url))
    app = Holdfast(store=flaky)
    heard: list[Any] = []
    app.on("worker_out")(lambda each: heard.append((each.detail, each.error)))
    serve(app)
    error = StoreTooNew("version 99")
    async with app:
        flaky.refuse("register", error)
        with pytest.raises(StoreTooNew, match="version 99"):
            await app.worker().run()
    assert heard == [("store_too_new", error)]


async def test_a_worker_that_could_not_tell_the_store_to_the_last_is_out(url: str) -> None:
    flaky = Flaky(open_store(url))
    app = Holdfast(store=flaky)
    heard: list[str] = []
    app.on("worker_out")(lambda each: heard.append(each.detail))
    work = serve(app)
    async with working(app, drain=0.01, grace=0.05) as running:
        await work.enqueue()
        await eventually(lambda: running.worker.active)
        flaky.refuse("settle_and_claim", StoreError("away"), times=1_000)
        report = await running.end()
    assert (report.out, report.lost, heard) == ("gave_up", 1, ["gave_up"])
