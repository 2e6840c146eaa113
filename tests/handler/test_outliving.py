"""Handlers that outlive their worker or its session: the id's next run in this process waits until they return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import places
import pytest
from support import PATIENCE, Running, eventually, evict, working

from holdfast import Holdfast, Job, Retry
from holdfast.executor.at_work import HandlersAtWork, at_work


class Runs:
    """How many handlers run at once, and whoever may go on."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.now = self.most = self.started = 0
        self._gate = threading.Lock()

    def __enter__(self) -> Runs:
        with self._gate:
            self.now += 1
            self.started += 1
            self.most = max(self.most, self.now)
        return self

    def __exit__(self, *exc: object) -> None:
        with self._gate:
            self.now -= 1


@pytest.fixture
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.go.set()


@pytest.fixture
def waits(caplog: pytest.LogCaptureFixture) -> Callable[[], bool]:
    """Return whether a run has been found to wait."""
    return lambda: "still_running: the handler of an earlier attempt of default/x has not returned" in caplog.text


def deaf(app: Holdfast, runs: Runs, **options: Any) -> Any:
    """Return a task whose first handler does not heed being told to stop."""

    @app.task(**options)
    def work(job: Job) -> int:
        with runs:
            if job.attempt == 1:
                runs.go.wait()
        return job.attempt

    return work


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_after_a_stop_the_next_run_waits_for_the_thread_that_was_left(
    kind: str, tmp_path: Path, runs: Runs, waits: Callable[[], bool]
) -> None:
    before = set(at_work.marks)  # of other tests
    with places.place(kind, tmp_path) as url:
        app = Holdfast(url)
        work = deaf(app, runs)
        async with app:
            handle = await work.options(job_id="x").enqueue()
            first = Running(app.worker(drain=0, grace=0.05))
            await eventually(lambda: runs.now)
            assert (await first.end()).left == ["default/x"]
            second = Running(app.worker())
            await eventually(waits)
            assert runs.started == 1
            runs.go.set()
            assert await handle.result(timeout=PATIENCE) > 1
            counters = (await handle.job()).counters
            await second.end()
        assert (runs.most, counters.releases) == (1, 1), "waiting is free of charge"
        assert not any(id == "x" for _, _, id in at_work.marks.keys() - before), "nothing is left of it"


async def test_after_an_eviction_the_next_run_waits(app: Holdfast, runs: Runs, waits: Callable[[], bool]) -> None:
    work = deaf(app, runs)
    async with working(app, lease=0.6):
        handle = await work.options(job_id="x").enqueue()
        await eventually(lambda: runs.now)
        await evict(app)
        await eventually(waits)
        assert runs.started == 1
        runs.go.set()
        assert await handle.result(timeout=PATIENCE) > 1
        assert (await handle.job()).counters.stalls == 1
    assert runs.most == 1


async def test_after_a_thread_was_left_behind_the_next_run_waits(
    app: Holdfast, runs: Runs, waits: Callable[[], bool]
) -> None:
    work = deaf(app, runs, timeout=0.05, retry=Retry(initial=0))
    async with app:
        handle = await work.options(job_id="x").enqueue()
        first = Running(app.worker(on_stuck="exit", lease=0.3, grace=0.05))
        assert (await asyncio.wait_for(first.task, PATIENCE)).out == "stuck"
        second = Running(app.worker())
        await eventually(waits)
        runs.go.set()
        assert await handle.result(timeout=PATIENCE) > 1
        await second.end()
    assert runs.most == 1


@pytest.mark.parametrize("how", ["stop", "evict"])
async def test_a_coroutine_that_is_deaf_to_being_cancelled_is_waited_for_as_well(
    app: Holdfast, runs: Runs, waits: Callable[[], bool], how: str
) -> None:
    @app.task()
    async def work(job: Job) -> int:
        with runs:
            while job.attempt == 1 and not runs.go.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    pass  # it is deaf
        return job.attempt

    async with app:
        handle = await work.options(job_id="x").enqueue()
        first = Running(app.worker(drain=0, grace=0.05, lease=0.6))
        await eventually(lambda: runs.now)
        if how == "stop":
            await first.end()
        else:
            await evict(app)
        second = Running(app.worker())
        await eventually(waits)
        assert runs.started == 1
        runs.go.set()
        assert await handle.result(timeout=PATIENCE) > 1
        await second.end()
        first.worker.stop()
        await first.task
    assert runs.most == 1


async def test_other_ids_and_other_stores_do_not_wait(tmp_path: Path, runs: Runs) -> None:
    apps = [Holdfast(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    works = [deaf(app, runs) for app in apps]
    async with apps[0], apps[1]:
        await works[0].options(job_id="x").enqueue()
        first = Running(apps[0].worker(drain=0, grace=0.05))
        await eventually(lambda: runs.now == 1)
        await first.end()
        await works[0].options(job_id="y").enqueue()
        await works[1].options(job_id="x").enqueue()
        rest = [Running(app.worker(drain=0, grace=0.05)) for app in apps]
        await eventually(lambda: runs.started == 3)
        runs.go.set()
        for each in rest:
            await each.end()


def test_whoever_is_gone_with_its_loop_is_not_waited_for() -> None:
    found, key = HandlersAtWork(), ("url", "q", "x")

    class Forgotten:
        """A task that will never go on."""

        loop = asyncio.new_event_loop()

        def done(self) -> bool:
            return False

        def add_done_callback(self, _: object) -> None: ...

        def get_loop(self) -> asyncio.AbstractEventLoop:
            return self.loop

    found.watch(key, Forgotten())  # type: ignore[arg-type]
    assert found.has(key)
    Forgotten.loop.close()
    assert not found.has(key)
    assert not found.marks


async def test_a_coroutine_that_has_ended_leaves_nothing_behind() -> None:
    found, keys, go = HandlersAtWork(), [("url", "q", "x"), ("url", "q", "y")], asyncio.Event()

    async def ends() -> None:
        await go.wait()

    tasks = [asyncio.create_task(ends()) for _ in range(3)]
    for key, task in zip([*keys, keys[0]], tasks, strict=True):
        found.watch(key, task)
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    assert [found.has(key) for key in keys] == [True, True], "the later one of the same id is at work"
    go.set()
    await asyncio.wait(tasks)
    assert not found.marks, "without being asked for: most ids are never heard of again"


def test_a_handler_leaves_only_its_own_mark() -> None:
    found, key = HandlersAtWork(), ("url", "q", "x")
    first, second = found.enter(key), found.enter(key)
    first()
    assert found.has(key)
    second()
    assert not found.has(key)
