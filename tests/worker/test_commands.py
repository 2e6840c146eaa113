"""Workers that are told through the store to end, and what they say of themselves with their heartbeats."""

from __future__ import annotations

import asyncio
import os
import platform
from typing import Any

import pytest
from support import Running, eventually, working

from holdfast import ConfigError, Holdfast, Job, __version__

QUICK = {"lease": 3, "heartbeat": 0.05}


@pytest.fixture
def heard(app: Holdfast) -> list[str]:
    """Why workers of this app stopped."""
    told: list[str] = []
    app.on("worker_stopping")(lambda each: told.append(each.detail))
    return told


def serve(app: Holdfast, go: asyncio.Event) -> Any:
    @app.task()
    async def work(job: Job) -> str:
        waits = [asyncio.ensure_future(each) for each in (job.signal.wait(), go.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        return job.signal.reason or "in peace"

    return work


async def ended(running: Running) -> None:
    await asyncio.wait_for(asyncio.shield(running.task), 20)


async def test_a_worker_that_is_told_to_drain_finishes_what_it_runs(app: Holdfast, heard: list[str]) -> None:
    go = asyncio.Event()
    work = serve(app, go)
    async with working(app, name="mail-1", **QUICK) as running:
        first = await work.enqueue()
        await eventually(lambda: running.worker.active)
        (session,) = await app.stop_worker("mail-1")
        await eventually(lambda: heard == ["command"])
        second = await work.enqueue()
        (info,) = await app.workers()
        assert (info.session.id, info.command) == (session, "drain")
        go.set()
        await ended(running)
        assert (await first.result(), (await second.job()).state) == ("in peace", "waiting")
        assert await app.workers() == []
    assert heard == ["command"]
    assert running.task.result().out is None


async def test_without_a_drain_handlers_are_told_at_once_also_while_it_drains(app: Holdfast) -> None:
    work = serve(app, asyncio.Event())
    async with working(app, name="mail", drain=60, grace=5, **QUICK) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        assert len(await app.stop_worker("mail")) == 1
        assert len(await app.stop_worker("mail", drain=False)) == 1
        await ended(running)
        assert await handle.result() == "shutdown"


async def test_who_is_not_meant_is_not_told(app: Holdfast) -> None:
    serve(app, asyncio.Event())
    async with working(app, name="mail-1x", **QUICK) as running:
        (info,) = await app.workers()
        for name in ("mail", "mail-1", "x", "MAIL-1X", f"{info.session.id}x"):
            assert await app.stop_worker(name) == []
        assert running.worker.running
        assert await app.stop_worker(info.session.id) == [info.session.id]
        await ended(running)
        assert await app.stop_worker(info.session.id) == []
        with pytest.raises(ConfigError, match="worker=5"):
            await app.stop_worker(5)  # type: ignore[arg-type]


async def test_a_name_without_its_number_means_all_processes_of_it(app: Holdfast) -> None:
    serve(app, asyncio.Event())
    async with working(app, name="mail-1", **QUICK) as one, working(app, name="mail-23", **QUICK) as other:
        assert len(await app.stop_worker("mail")) == 2
        await ended(one)
        await ended(other)


async def test_a_worker_that_starts_again_was_told_nothing(app: Holdfast) -> None:
    serve(app, asyncio.Event())
    async with app:
        worker = app.worker(name="mail", **QUICK)
        await worker.start()
        await app.stop_worker("mail")
        await worker.stopped()
        await worker.start()
        (info,) = await app.workers()
        await eventually(lambda: beaten(app, info.heard_at_ms))
        assert (await app.workers())[0].command is None
        assert worker.running
        await worker.stop()


async def beaten(app: Holdfast, since: int) -> bool:
    return (await app.workers())[0].heard_at_ms > since


async def test_a_worker_tells_its_version_and_its_memory(app: Holdfast) -> None:
    serve(app, asyncio.Event())
    async with working(app, **QUICK):
        (info,) = await app.workers()
        assert (info.session.version, info.session.python) == (__version__, platform.python_version())

        async def memory() -> int | None:
            return (await app.workers())[0].memory_bytes

        assert 2**20 < await eventually(memory) < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
