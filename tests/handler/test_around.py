"""What surrounds a handler: its worker's name, its limits, its middleware; and what its fail handler inherits."""

from __future__ import annotations

from typing import Any

import around_tasks
import pytest
from support import burst, eventually, working

from holdfast import ConfigError, FailedJob, Holdfast, Job, Middleware, Next, Permanent, Retry, Snooze

EXECUTORS = ["inline", "thread", "process", "sandbox"]


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_handler_sees_its_worker_and_its_limits(executor: str) -> None:
    task = around_tasks.TASKS[executor]
    async with working(around_tasks.app, pool=1, name="anna"):
        assert await task.call() == ["anna", 3, 9, 30.0, False, 0]
        assert await task.call(failing=2) == ["anna", 3, 9, 30.0, True, 0]
        own = task.options(retry=Retry(failures=1), timeout=20)
        assert await own.call() == ["anna", 1, None, 20.0, True, 0]


async def test_an_operators_limits_are_seen_once_the_worker_has_heard_of_them(app: Holdfast) -> None:
    @app.task(retry=Retry(failures=5, permanent=(KeyError,)))
    async def work(job: Job) -> list[Any]:
        return [job.retry.failures, *job.retry.permanent, job.last_attempt]

    async with app:
        await work.adjust(failures=1)
        async with working(app, lease=0.3):
            assert await work.call() == [1, "KeyError", True]
            await work.adjust(failures=2)

            async def heard() -> bool:
                return await work.call() == [2, "KeyError", False]

            await eventually(heard)


async def test_a_fail_handler_and_a_capped_job_know_their_last_attempt(app: Holdfast) -> None:
    seen: list[tuple[int, bool]] = []

    @app.task()
    async def rescue(job: Job) -> None:
        seen.append((job.retry.failures or 0, job.last_attempt))

    @app.task(retry=Retry(attempts=2), on_failure=rescue)
    async def work(job: Job) -> None:
        seen.append((job.attempt, job.last_attempt))
        raise Snooze(after=0)

    async with app:
        await work.enqueue()
        await burst(app)
    assert seen == [(1, False), (2, True), (100, False)]


async def test_a_workers_middleware_is_inside_the_apps_and_of_no_other_worker(app: Holdfast) -> None:
    steps: list[str] = []

    def around(name: str) -> Middleware:
        async def call(job: Job, next: Next) -> Any:
            steps.append(f"{name} at {job.worker}")
            return await next()

        return call

    app.middleware(around("first"))
    app.middleware(around("second"))

    @app.task()
    async def work() -> None:
        steps.append("work")

    async with app:
        await work.enqueue()
        await burst(app, name="anna", middleware=[around("third"), around("fourth")])
        assert steps == ["first at anna", "second at anna", "third at anna", "fourth at anna", "work"]
        steps.clear()
        await work.enqueue()
        await burst(app, name="otto")
        assert steps == ["first at otto", "second at otto", "work"]


@pytest.mark.parametrize("wrong", ["text", [7], 7, None])
async def test_what_is_no_middleware_is_refused(app: Holdfast, wrong: Any) -> None:
    app.queue("mail")
    with pytest.raises(ConfigError, match=r"middleware=.*: a list of functions of \(job, next\)"):
        app.worker(middleware=wrong)


async def test_a_fail_handler_has_the_key_and_priority_of_its_job_unless_its_own_task_says_otherwise(
    app: Holdfast,
) -> None:
    seen: dict[str, tuple[str | None, int, FailedJob | None]] = {}

    @app.task()
    async def rescue(job: Job) -> None:
        seen["rescue"] = (job.key, job.priority, job.failed)

    @app.task(priority=7)
    async def urgent(job: Job) -> None:
        seen["urgent"] = (job.key, job.priority, job.failed)

    @app.task(on_failure=rescue)
    async def work() -> None:
        raise Permanent("no")

    @app.task(on_failure=urgent)
    async def other() -> None:
        raise Permanent("no")

    async with app:
        handle = await work.options(key="ann", priority=5).enqueue()
        await other.options(key="bob", priority=5).enqueue()
        await burst(app)
        run_at = (await handle.job()).run_at
    assert {name: each[:2] for name, each in seen.items()} == {"rescue": ("ann", 5), "urgent": ("bob", 7)}
    failed = seen["rescue"][2]
    assert failed is not None
    assert (failed.key, failed.priority, failed.run_at) == ("ann", 5, run_at)


async def test_what_a_handler_writes_into_its_headers_is_seen_by_no_other_job(app: Holdfast) -> None:
    seen: list[dict[str, str]] = []

    @app.task(queue="heads")
    async def writes(job: Job) -> None:
        seen.append(dict(job.headers))
        job.headers["tenant"] = "acme"

    async with working(app):
        for _ in range(2):
            await writes.call()
        record = await (await writes.enqueue()).job()
    record.headers["tenant"] = "acme"
    assert seen[:2] == [{}, {}]
    assert record.headers == {}
