"""What docs/from says of executors: what kills, what does not, what takes which room."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import from_handlers
import pytest
from support import eventually, transitions, working

from holdfast import ConfigError, Holdfast, Job, Sandbox


async def test_a_thread_past_its_timeout_runs_on_and_keeps_its_slot(app: Holdfast) -> None:
    go_on = threading.Event()
    reasons: list[str | None] = []

    @app.task(timeout=0.01)
    def work(job: Job) -> None:
        job.signal.wait_in_thread()
        reasons.append(job.signal.reason)
        go_on.wait()

    async with working(app, slots=1) as running:
        handle = await work.enqueue()
        await eventually(lambda: reasons)
        late = await handle.job()
        active = running.worker.active
        go_on.set()

        async def counted() -> int:
            return (await handle.job()).counters.timeouts

        await eventually(counted)
    assert (reasons, late.state, active) == (["timeout"], "active", 1)


async def test_a_process_past_its_timeout_is_killed() -> None:
    async with working(from_handlers.app, "whole", pool=1, grace=0.1):
        handle = await from_handlers.never_ends.enqueue()

        async def counted() -> bool:
            return (await handle.job()).counters.timeouts > 0

        await eventually(counted)
        await handle.cancel()


async def test_the_next_run_waits_for_a_thread_that_outlived_its_worker(tmp_path: Path) -> None:
    app = Holdfast(f"memory://{tmp_path.name}")
    go_on, started = threading.Event(), threading.Event()
    now: list[int] = []
    at_once: list[int] = []

    @app.task()
    def work(job: Job) -> int:
        now.append(job.attempt)
        at_once.append(len(now))
        started.set()
        go_on.wait()
        now.remove(job.attempt)
        return job.counters.releases

    async with app:
        handle = await work.enqueue()
        async with working(app, drain=0, grace=0.01) as first:
            await eventually(started.is_set)
            report = await first.end()
        async with working(app):

            async def waits() -> bool:
                return (await transitions(app, handle.id)).count("release") > 1

            await eventually(waits)
            go_on.set()
            assert await handle.result() == 1
    assert (len(report.left), set(at_once)) == (1, {1})


async def test_a_heavy_coroutine_takes_several_slots(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task(size=5)
    async def heavy() -> None:
        await gate.wait()

    async with working(app, slots=10) as running:
        handles = [await heavy.enqueue() for _ in range(3)]
        await eventually(lambda: running.worker.active == 2)
        states = [str((await handle.job()).state) for handle in handles]
        gate.set()
        for handle in handles:
            await handle.result()
    assert states == ["active", "active", "waiting"]


def test_there_is_no_timeout_unless_one_is_set(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    assert work.setting("timeout") is None
    assert work.policy().timeout_ms is None


def test_async_def_runs_in_the_loop_and_def_in_a_thread(app: Holdfast) -> None:
    @app.task()
    async def waits() -> None: ...

    @app.task()
    def blocks() -> None: ...

    assert (waits.runs_in, blocks.runs_in) == ("inline", "thread")


def test_a_job_takes_a_whole_process_or_one_slot(app: Holdfast) -> None:
    @app.task()
    async def inline() -> None: ...

    assert (from_handlers.never_ends.size, inline.size) == (100, 1)


@pytest.mark.parametrize(("queue", "room"), [("whole", 1), ("quarters", 4)])
async def test_a_process_has_a_hundred_units(queue: str, room: int) -> None:
    async with working(from_handlers.app, queue, pool=1):
        (info,) = await from_handlers.app.workers()
    assert info.session.slots == room


async def test_a_pool_has_a_process_for_each_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    async with working(from_handlers.app, "whole"):
        (info,) = await from_handlers.app.workers()
    assert info.session.slots == 2


def test_a_sandbox_may_do_nothing_unless_it_is_said() -> None:
    nothing = Sandbox()
    assert (nothing.read, nothing.write, nothing.connect, nothing.env, nothing.subprocess) == ((), (), (), (), False)
    assert nothing.memory == 512 << 20


def test_a_sandbox_refuses_a_host() -> None:
    assert Sandbox(connect=[443]).connect
    with pytest.raises(ConfigError, match="port"):
        Sandbox(connect=["s3.example.com:443"])  # type: ignore[list-item]
