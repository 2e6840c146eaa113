"""Middleware wraps attempts; hooks hear what happens and can do no harm."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support import burst, eventually, working

from holdfast import ConfigError, Holdfast, HookEvent, Job, JobFailed, Permanent, Retry, Snooze, State
from holdfast.app.hooks import KNOWN, Hooks
from holdfast.worker import Report

Next = Callable[[], Awaitable[Any]]


async def test_middleware_wraps_like_an_onion_first_added_outermost(app: Holdfast) -> None:
    order: list[str] = []

    def layer(name: str) -> None:
        @app.middleware
        async def around(job: Job, next: Next) -> Any:
            order.append(f"{name} in")
            try:
                return await next()
            finally:
                order.append(f"{name} out")

    layer("outer")
    layer("inner")

    @app.task()
    def work() -> str:
        order.append("handler")
        return "done"

    async with working(app):
        assert await work.call() == "done"
    assert order == ["outer in", "inner in", "handler", "inner out", "outer out"]


async def test_middleware_gives_context_to_the_handler_and_replaces_the_result_and_its_ttl(app: Holdfast) -> None:
    @app.middleware
    async def around(job: Job, next: Next) -> Any:
        job.context["user"] = "ann"
        result = await next()
        job.keep_result(60)
        return f"{result}!"

    @app.task()
    async def greet(job: Job) -> str:
        return f"hello {job.context['user']}"

    async with working(app):
        handle = await greet.enqueue()
        assert await handle.result() == "hello ann!"
        job = await handle.job()
    assert job.expires_at_ms is not None
    assert job.finished_at_ms is not None
    assert job.expires_at_ms - job.finished_at_ms == 60_000


async def test_middleware_replaces_an_error_or_swallows_it(app: Holdfast) -> None:
    @app.middleware
    async def around(job: Job, next: Next) -> Any:
        try:
            return await next()
        except KeyError as error:
            raise Permanent("translated") from error
        except ValueError:
            return "swallowed"

    @app.task()
    async def key() -> None:
        raise KeyError("x")

    @app.task()
    async def value() -> str:
        raise ValueError("x")

    async with working(app):
        with pytest.raises(JobFailed, match="Permanent: translated"):
            await key.call()
        assert await value.call() == "swallowed"


async def test_middleware_may_answer_without_the_handler_or_snooze_it(app: Holdfast) -> None:
    ran = []

    @app.middleware
    async def around(job: Job, next: Next) -> Any:
        if job.attempt == 1:
            raise Snooze(after=0)
        return "cached"

    @app.task()
    async def work() -> str:
        ran.append(1)
        return "computed"

    async with working(app):
        assert await work.call() == "cached"
    assert ran == []


async def test_middleware_that_raises_fails_the_attempt(app: Holdfast) -> None:
    @app.middleware
    async def around(job: Job, next: Next) -> Any:
        raise RuntimeError("bad middleware")

    @app.task(retry=Retry(failures=1))
    async def work() -> None: ...

    async with working(app):
        with pytest.raises(JobFailed, match="RuntimeError: bad middleware"):
            await work.call()


# --- hooks


async def test_hooks_hear_every_transition_of_their_name_or_all(app: Holdfast) -> None:
    all_of_them: list[HookEvent] = []
    completed: list[HookEvent] = []
    app.on("*")(all_of_them.append)

    @app.on("complete")
    async def on_complete(happening: HookEvent) -> None:
        await asyncio.sleep(0)
        completed.append(happening)

    @app.task(retry=Retry(initial=0.01))
    async def flaky(job: Job) -> None:
        if job.attempt == 1:
            raise ValueError

    async with app:
        handle = await flaky.options(job_id="x").enqueue()
        await burst(app)
        await eventually(lambda: completed)
    names = [happening.name for happening in all_of_them]
    assert names == [
        "enqueue",
        "worker_started",
        "claim",
        "retry",
        "claim",
        "complete",
        "worker_stopping",
        "worker_stopped",
    ]
    (done,) = completed
    assert (done.queue, done.id, done.run, done.attempt, done.state) == ("default", "x", handle.run, 2, "completed")


async def test_a_worker_has_hooks_of_its_own(app: Holdfast) -> None:
    heard: list[str] = []

    @app.task()
    async def work() -> None: ...

    async with app:
        worker = app.worker()
        worker.on("complete")(lambda happening: heard.append(happening.name))
        await work.enqueue()
        await worker.run(burst=True)
        await work.enqueue()
        await app.worker().run(burst=True)
    assert heard == ["complete"]


async def test_hooks_hear_how_a_job_ended_not_what_its_worker_asked_for(app: Holdfast) -> None:
    heard: list[tuple[str, str | None]] = []
    for name in ("retry", "fail", "cancel", "release", "snooze", "requeue", "update"):
        app.on(name)(lambda happening: heard.append((happening.name, happening.state)))

    @app.task(retry=Retry(failures=1))
    async def broken() -> None:
        raise ValueError

    async with app:
        await broken.options(job_id="x").enqueue()
        await burst(app)
        await broken.options(job_id="x", on_failed="requeue").enqueue()
        await broken.options(job_id="x", on_conflict="update").enqueue()
        await broken.cancel("x")
    assert heard == [("fail", "failed"), ("requeue", "waiting"), ("update", "waiting"), ("cancel", "cancelled")]


async def test_a_hook_that_raises_is_reported_and_harms_nothing(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    @app.on("*")
    def sync_hook(happening: HookEvent) -> None:
        raise RuntimeError("a bad hook")

    @app.on("complete")
    async def async_hook(happening: HookEvent) -> None:
        raise RuntimeError("a bad async hook")

    @app.task()
    async def work() -> str:
        return "done"

    with caplog.at_level(logging.ERROR):
        async with working(app) as running:
            handle = await work.enqueue()
            assert await handle.result() == "done"
            await eventually(lambda: "a bad async hook" in caplog.text)
            report = await running.end()
        assert (await _state(app, handle.id)) is State.COMPLETED
    assert report == Report(started=1, completed=1)
    assert "a hook for enqueue raised" in caplog.text


async def _state(app: Holdfast, id: str) -> State:
    async with app:
        return (await app.status("default", id)).state


def test_an_unknown_hook_is_refused(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match=r"'done' is nothing that a hook can hear of; known are \*, enqueue"):
        app.on("done")(print)


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, GeneratorExit])
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_whatever_a_hook_raises_ends_no_worker(
    app: Holdfast, caplog: pytest.LogCaptureFixture, error: type[BaseException], kind: str
) -> None:
    @app.task()
    async def job() -> str:
        return "done"

    def hook(happening: HookEvent) -> None:
        raise error

    async def async_hook(happening: HookEvent) -> None:
        raise error

    app.on("complete")(hook if kind == "def" else async_hook)
    async with working(app) as running:
        assert [await job.call() for _ in range(3)] == ["done"] * 3
        assert not running.task.done()
        if error is not GeneratorExit or kind == "def":
            await eventually(lambda: "a hook for complete raised" in caplog.text)


def test_hooks_of_a_worker_want_what_its_app_wants_before_and_after() -> None:
    app = Hooks()
    app.add("claim", lambda event: None)
    worker = Hooks(app)
    assert worker.wanted == {"claim"}
    app.add("complete", lambda event: None)
    worker.add("lost", lambda event: None)
    assert worker.wanted == {"claim", "complete", "lost"}
    assert app.wanted == {"claim", "complete"}, "an app does not hear for the sake of a worker"
    app.add("*", lambda event: None)
    assert worker.wanted == set(KNOWN)


async def test_a_worker_that_ends_waits_for_its_asynchronous_hooks(app: Holdfast) -> None:
    heard = []

    @app.on("worker_stopped")
    async def slow(event: HookEvent) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        heard.append(event.name)

    @app.task
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await app.worker().run(burst=True)
        assert heard == ["worker_stopped"]


async def test_a_hook_that_does_not_end_keeps_a_worker_for_its_grace_alone(app: Holdfast) -> None:
    begun = asyncio.Event()

    @app.on("worker_stopped")
    async def endless(event: HookEvent) -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.task
    async def work() -> None: ...

    async with app:
        await app.worker(grace=0.01).run(burst=True)
        assert begun.is_set()
