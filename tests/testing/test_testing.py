"""What Holdfast offers for its users' own tests: the manual clock, drain in place, isolation, the pytest plugin."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import ConfigError, Holdfast, HoldfastError, HookEvent, Job, Permanent, Retry, Snooze, State
from holdfast.testing import ManualClock, Ran, drain, isolate

Isolate = Callable[[Holdfast], Holdfast]
ROOT = Path(__file__).parent.parent.parent


def summary(ran: list[Ran]) -> list[tuple[str | None, str]]:
    return [(each.task, each.outcome) for each in ran]


async def test_drain_runs_what_is_due_and_returns_it(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("sqlite:////nowhere/at/all.db"))

    @app.task()
    async def double(n: int) -> int:
        return n * 2

    async with app:
        handle = await double.options(job_id="x").enqueue(4)
        (ran,) = await drain(app)
        assert (ran.queue, ran.id, ran.run, ran.attempt, ran.task) == ("default", "x", handle.run, 1, "double")
        assert (ran.outcome, ran.result, ran.error) == ("completed", 8, None)
        assert await handle.result() == 8
        assert await drain(app) == []
        assert await app.workers() == []


async def test_the_clock_decides_what_is_due(holdfast_isolate: Isolate, holdfast_clock: ManualClock) -> None:
    app = holdfast_isolate(Holdfast("memory://"))

    @app.task(retry=Retry(failures=3, initial=10, multiplier=2))
    async def flaky(job: Job) -> str:
        if job.attempt < 3:
            raise ValueError(f"no {job.attempt}")
        return "at last"

    async with app:
        handle = await flaky.options(delay=3600).enqueue()
        assert await drain(app) == []
        holdfast_clock.advance(3599.999)
        assert await drain(app) == []
        holdfast_clock.advance(0.001)
        (first,) = await drain(app)
        assert (first.outcome, str(first.error)) == ("retried", "no 1")
        assert await drain(app) == []
        holdfast_clock.advance(10)
        assert summary(await drain(app)) == [("flaky", "retried")]
        holdfast_clock.advance(20)
        assert summary(await drain(app)) == [("flaky", "completed")]
        job = await handle.job()
        assert job.finished_at_ms == holdfast_clock.now_ms
        assert job.finished_at_ms - job.enqueued_at_ms == 3_630_000


async def test_every_ending_is_recorded_as_in_a_worker(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    heard: list[str] = []
    app.on("*")(lambda happening: heard.append(f"{happening.name} {happening.id}"))

    @app.middleware
    async def around(job: Job, next: Any) -> Any:
        heard.append(f"around {job.id}")
        return await next()

    @app.task()
    async def alarm(job: Job, kind: str) -> None: ...

    @app.task(on_failure=alarm)
    async def end(kind: str) -> None:
        if kind == "snooze":
            raise Snooze(after=60)
        if kind == "permanent":
            raise Permanent("over")
        if kind == "retry":
            raise ValueError("again")

    async with app:
        for kind in ("snooze", "permanent", "retry", "complete"):
            await end.options(job_id=kind).enqueue(kind)
        ran = await drain(app)
        stored = {job.id: job.state for job in (await app.jobs()).jobs}
    assert summary(ran) == [
        ("end", "snoozed"), ("end", "failed"), ("end", "retried"), ("end", "completed"), ("alarm", "completed"),
    ]  # fmt: skip
    assert stored["permanent"] is State.FAILED
    assert stored["retry"] is stored["snooze"] is State.SCHEDULED
    assert [each for each in heard if each.endswith(" complete")][2:] == ["around complete", "complete complete"]


async def test_errors_may_be_raised_after_they_were_recorded(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))

    @app.task()
    def broken() -> None:
        raise KeyError("x")

    @app.task()
    async def after() -> None: ...

    async with app:
        handle = await broken.enqueue()
        later = await after.enqueue()
        with pytest.raises(KeyError, match="x"):
            await drain(app, raise_errors=True)
        job = await handle.job()
        assert (job.state, job.counters.failures) == (State.SCHEDULED, 1)
        assert (await later.job()).state is State.WAITING
        assert summary(await drain(app, raise_errors=True)) == [("after", "completed")]


async def test_def_handlers_run_in_this_very_thread_unless_asked_otherwise(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    seen: list[bool] = []
    here = threading.get_ident()

    @app.task()
    def where(job: Job) -> None:
        seen.append(threading.get_ident() == here)
        if threading.get_ident() != here:
            app.sync(job.progress(0.5))

    async with app:
        await where.enqueue()
        await drain(app)
        await where.enqueue()
        await drain(app, threads=True, raise_errors=True)
    assert seen == [True, False]


async def test_the_order_is_that_of_priority_and_arrival_every_time(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    app.queue("late", priority=-1)
    for queue in ("late", "a", "b"):
        app.task(queue=queue, name=queue)(_nothing)
    orders = set()
    async with app:
        for _ in range(3):
            for queue in ("late", "a", "b"):
                for priority in (0, 5):
                    await app.registry.tasks[queue].options(priority=priority).enqueue(f"{queue}{priority}")
            orders.add(tuple([ran.result for ran in await drain(app)]))
    assert orders == {("a5", "b5", "a0", "b0", "late5", "late0")}


async def _nothing(name: str) -> str:
    return name


async def test_some_queues_only(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    for queue in ("a", "b"):
        app.task(queue=queue, name=queue)(_nothing)
    async with app:
        for queue in ("a", "b"):
            await app.registry.tasks[queue].enqueue(queue)
        assert summary(await drain(app, ["b"])) == [("b", "completed")]
        assert summary(await drain(app)) == [("a", "completed")]


async def test_what_jobs_enqueue_runs_too_and_one_that_never_ends_is_found_out(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))

    @app.task()
    async def countdown(n: int) -> None:
        if n:
            await countdown.enqueue(n - 1)

    async with app:
        await countdown.enqueue(5)
        assert len(await drain(app)) == 6
        await countdown.enqueue(-1)
        with pytest.raises(HoldfastError, match=r"drain\(\) ran 50 jobs and there is more: does a job enqueue itself"):
            await drain(app, limit=50)


async def test_an_unknown_task_is_released_and_not_tried_for_ever(holdfast_isolate: Isolate) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    heard: list[HookEvent] = []
    app.on("worker_error")(heard.append)
    async with app:
        await app.queue("plain").enqueue({})
        assert summary(await drain(app, ["plain"])) == [(None, "released")]
        assert await drain(app) == [], "a queue that was named is one of the app's"
    async with holdfast_isolate(Holdfast("memory://")) as empty:
        with pytest.raises(ConfigError, match="declares no task and no queue; name the queues to drain"):
            await drain(empty)
    assert [happening.detail for happening in heard] == ["no handler"]


def test_from_plain_code_with_no_loop_at_all(holdfast_isolate: Isolate, holdfast_clock: ManualClock) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    here = threading.get_ident()

    @app.task()
    def where() -> bool:
        return threading.get_ident() == here

    app.sync(where.options(delay=60).enqueue())
    assert app.sync(drain(app)) == []
    app.sync.close()
    holdfast_clock.advance(60)
    (ran,) = asyncio.run(drain(app))
    assert ran.result is True


def writers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast")}


async def test_an_isolated_app_is_empty_and_gets_its_own_store_back(app: Holdfast) -> None:
    async with app:
        await app.queue("mail").enqueue(1)
    before = writers()
    for _ in range(5):
        with isolate(app):
            async with app:
                assert (await app.jobs()).jobs == []
                await app.queue("mail").enqueue(2)
                await app.queue("mail").enqueue(3)
            async with app:
                assert len((await app.jobs()).jobs) == 2
    assert not writers() - before, "those of other tests may end meanwhile"
    async with app:
        assert len((await app.jobs()).jobs) == 1
        with pytest.raises(ConfigError, match=r"this app is open; isolate\(\) it before it is opened"), isolate(app):
            pass


def test_the_clock_only_goes_forwards() -> None:
    clock = ManualClock(1000)
    assert clock.advance(1.5) == clock() == clock.now_ms == 2500
    with pytest.raises(ValueError, match="only goes forwards"):
        clock.advance(-1)


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    """It finds its fixtures by the plugin that is installed with the package."""
    page = (ROOT / "docs" / "testing.md").read_text()
    files = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in files] == [
        "shop.py", "test_shop.py", "billing.py", "test_billing.py", "test_billing_unittest.py",
    ]  # fmt: skip
    for name, source in files:
        (tmp_path / name).write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout
    alone = [sys.executable, "-W", "error", "test_billing_unittest.py"]
    assert "OK" in subprocess.run(alone, capture_output=True, text=True, cwd=tmp_path, check=True).stderr
