"""Queues, tasks and schedules that are declared while a worker runs are served without a restart."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import places
import pytest
from support import Flaky, Running, burst, declare_dead, eventually, working
from whole_handlers import pid_of

from holdfast import Every, Holdfast, HookEvent, Rate, Retry, State
from holdfast.errors import StoreError


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """An app on an empty store of each kind, with a task."""
    with places.place(request.param, tmp_path) as url:
        app = Holdfast(url)
        app.task(name="double", queue="first")(double)
        yield app


async def double(n: int) -> int:
    return 2 * n


async def served(running: Running, app: Holdfast) -> set[str]:
    """Return the queues of the worker, as the store knows it."""
    (session,) = await app.workers()
    return set(session.session.queues)


async def test_a_queue_that_is_declared_while_a_worker_runs_is_served(app: Holdfast) -> None:
    async with working(app, poll=60) as running:
        assert await app.registry.tasks["double"].call(1) == 2
        late = app.queue("late", handler=lambda payload: [payload], retry=Retry(failures=7), concurrency=3)
        assert await late.call("a") == ["a"]
        assert running.worker.queues == ("first", "late")
        assert await served(running, app) == {"first", "late"}
        info = await late.info()
        assert info is not None
        assert info.settings.concurrency == 3
        assert (await late.policies())[""].retry.failures == 7
        jobs = [await late.enqueue(n) for n in range(20)]
        assert [await job.result() for job in jobs] == [[n] for n in range(20)], "it is woken there, too"
        assert [await app.registry.tasks["double"].call(n) for n in range(5)] == [0, 2, 4, 6, 8]


async def test_a_task_that_is_declared_while_a_worker_runs_is_served_with_its_policy(app: Holdfast) -> None:
    async with working(app, poll=60):

        @app.task(queue="first", retry=Retry(failures=9))
        async def near(n: int) -> int:
            return n + 1

        @app.task(queue="other", retry=Retry(failures=8), timeout=5)
        async def far(n: int) -> int:
            return n + 2

        assert (await near.call(1), await far.call(1)) == (2, 3)
        await eventually(lambda: _failures(app, "first", "near", 9))
        assert await _failures(app, "other", "far", 8)


async def _failures(app: Holdfast, queue: str, task: str, wanted: int) -> bool:
    policies = await app.queue(queue).policies()
    return task in policies and policies[task].retry.failures == wanted


async def test_jobs_that_run_or_wait_are_not_lost_when_a_queue_joins(app: Holdfast) -> None:
    """On Redis an idle worker is given jobs with its wake-ups, by a session of one queue alone."""
    task = app.registry.tasks["double"]
    async with working(app, slots=3, poll=60):
        jobs = []
        for number in range(12):
            jobs.append(await task.enqueue(number))
            queue = app.queue(f"late-{number}", handler=lambda payload: payload)
            jobs.append(await task.enqueue(number))
            assert await queue.call(number) == number
        assert [await job.result() for job in jobs] == [2 * (n // 2) for n in range(24)]
        assert not [event async for event in app.events() if event.transition in ("reap", "release")]


async def test_a_worker_with_a_list_keeps_to_it_and_declares_the_tasks_that_come(app: Holdfast) -> None:
    async with working(app, "first", poll=60) as running:

        @app.task(queue="first", retry=Retry(failures=9))
        async def near(n: int) -> int:
            return n + 1

        late = await app.queue("late", handler=lambda payload: payload).enqueue(1)
        assert await near.call(1) == 2
        await eventually(lambda: _failures(app, "first", "near", 9))
        assert running.worker.queues == ("first",)
        assert (await late.job()).state is State.WAITING


async def test_a_name_alone_declares_nothing_while_a_worker_runs(app: Holdfast) -> None:
    app.queue("named")
    async with working(app) as running:
        await app.queue("asked").info()
        app.queue("more", concurrency=2)
        await eventually(lambda: "more" in running.worker.queues)
        assert running.worker.queues == ("first", "named", "more")


async def test_a_queue_may_be_declared_by_another_thread(app: Holdfast) -> None:
    async with working(app, poll=60):
        late = await asyncio.to_thread(app.queue, "late", handler=lambda payload: payload)  # type: ignore[arg-type]
        assert await late.call(3) == 3


async def test_what_is_declared_before_the_worker_runs_is_served(app: Holdfast) -> None:
    async with app:
        worker = app.worker()
        late = await app.queue("late", handler=lambda payload: payload).enqueue(5)
        await worker.run(burst=True)
        assert await late.result() == 5


async def test_a_burst_serves_the_queue_that_a_handler_declares(app: Holdfast) -> None:
    @app.task(queue="first")
    async def begin() -> None:
        late = app.queue("late", handler=lambda payload: payload)
        found.append(await late.enqueue(7))

    found: list[Any] = []
    async with app:
        await begin.enqueue()
        await burst(app)
        assert await found[0].result() == 7


async def test_a_schedule_that_is_declared_while_a_worker_runs_fires(app: Holdfast) -> None:
    fired = asyncio.Event()
    async with working(app):
        late = app.queue("late", handler=lambda payload: fired.set())
        app.schedule("often", Every(0.1), late.args(1))
        await asyncio.wait_for(fired.wait(), 20)


async def test_a_queue_whose_handler_cannot_run_here_is_told_of_and_the_others_are_served(app: Holdfast) -> None:
    heard: list[HookEvent] = []
    app.on("worker_error")(heard.append)
    async with working(app, poll=60) as running:
        app.queue("broken", handler="no_such_module:fn")
        await eventually(lambda: heard)
        assert (heard[0].queue, heard[0].detail) == (
            "broken", "'no_such_module:fn' cannot be imported: No module named 'no_such_module'",
        )  # fmt: skip
        late = app.queue("late", handler=lambda payload: payload)
        assert await late.call(3) == 3
        assert running.worker.queues == ("first", "late")
        app.queue("broken", handler=lambda payload: payload)
        assert await app.queue("broken").call(4) == 4
    assert len(heard) == 1


async def test_another_value_of_the_same_version_is_told_and_the_worker_goes_on(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    app.queue("first", rate=Rate(1000))
    async with working(app):
        app.queue("first", rate=Rate(2000))
        await eventually(lambda: "queue 'first' was declared before with version 0 and other values" in caplog.text)
        assert await app.registry.tasks["double"].call(2) == 4


async def test_a_store_that_is_away_for_a_while_does_not_keep_a_queue_out(tmp_path: Path) -> None:
    store: Any = Flaky(Holdfast(f"sqlite:///{tmp_path}/jobs.db").store)
    app = Holdfast(store=store)
    app.task(name="double", queue="first")(double)
    async with working(app, poll=60):
        for method in ("declare", "register"):
            store.refuse(method, StoreError("away"), times=2)
        late = app.queue("late", handler=lambda payload: payload)
        assert await late.call(3) == 3
        assert store.left("register") == 0


async def test_a_process_handler_that_is_declared_late_has_its_process(app: Holdfast) -> None:
    async with working(app, pool=1, poll=60):
        late = app.queue("late", handler=pid_of, executor="process")
        assert await late.call(None) != os.getpid()


async def test_a_session_that_was_declared_dead_is_not_revived_by_a_new_queue(app: Holdfast) -> None:
    hung, let_go = asyncio.Event(), asyncio.Event()

    @app.task(queue="first")
    async def hang() -> str:
        hung.set()
        await let_go.wait()
        return "done"

    lost: list[HookEvent] = []
    app.on("lease_lost")(lost.append)
    async with working(app, lease=60, poll=60):
        handle = await hang.enqueue()
        await hung.wait()
        await declare_dead(app)
        late = app.queue("late", handler=lambda payload: payload)
        await eventually(lambda: lost)
        let_go.set()
        assert await late.call(1) == 1
        assert await handle.result() == "done"
        assert (await handle.job()).counters.stalls == 1
