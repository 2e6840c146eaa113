"""What operators and callers may say, and what is heard of it: hooks, wake-ups, and options that cannot be right."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from support import eventually, working

from holdfast import ConfigError, Dedup, Holdfast, HookEvent, Job, JobCancelled, Rate, Reply, Retention, Retry, State
from holdfast.store.contract import Listener


async def test_a_successor_counts_for_dedup_as_its_job_does(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task()
    async def wait() -> None:
        await gate.wait()

    async with working(app):
        first = await wait.options(job_id="a").enqueue()
        await eventually(lambda: _is_active(app, "a"))
        same = wait.options(job_id="a", on_conflict="update", dedup=Dedup("k"))
        successor = await same.enqueue()
        other = await wait.options(job_id="b", dedup=Dedup("k")).enqueue()
        assert (other.status, other.id, other.run) == ("duplicate", "a", successor.run)
        assert successor.run > first.run
        gate.set()


async def test_whoever_waits_for_a_successor_that_is_cancelled_hears_so(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task()
    async def wait() -> None:
        await gate.wait()

    async with working(app):
        await wait.options(job_id="a").enqueue()
        await eventually(lambda: _is_active(app, "a"))
        successor = await wait.options(job_id="a", on_conflict="update").enqueue()
        waiting = asyncio.create_task(successor.result())
        answer = await app.cancel("default", "a")
        assert (answer.reply, answer.state, answer.successor) == (Reply.OK, State.ACTIVE, True)
        assert answer.runs_on
        with pytest.raises(JobCancelled, match="default/a was cancelled"):
            await waiting
        gate.set()


async def test_a_refused_cancel_is_told_to_no_hook(app: Holdfast) -> None:
    gate = asyncio.Event()
    heard: list[HookEvent] = []
    app.on("cancel")(heard.append)

    @app.task()
    async def wait() -> None:
        await gate.wait()

    async with working(app):
        await wait.options(job_id="a").enqueue()
        await eventually(lambda: _is_active(app, "a"))
        await wait.options(job_id="a", on_conflict="update").enqueue()
        await app.cancel("default", "a")
        assert heard == []
        gate.set()


async def test_hooks_hear_of_steering_and_of_progress(app: Holdfast) -> None:
    heard: list[tuple[str, str]] = []
    app.on("*")(lambda happening: heard.append((happening.name, happening.detail)))

    @app.task(retry=Retry(failures=1))
    async def fail(job: Job) -> None:
        await job.progress(0.5, "half")
        raise ValueError("no")

    queue = app.queue("default")
    async with working(app):
        await fail.options(job_id="a", delay=3600).enqueue()
        assert await queue.promote("a") is Reply.OK
        await eventually(lambda: ("fail", "ValueError: no") in heard)
        await queue.requeue("a")
        await eventually(lambda: heard.count(("fail", "ValueError: no")) == 2)
        await queue.delete("a")
    names = [name for name, _ in heard]
    assert {"promote", "requeue", "delete"} <= set(names)
    assert ("progress", "half") in heard


async def test_a_worker_that_finds_jobs_only_by_its_poll_says_so(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    app.on("*")(lambda happening: heard.append(happening.name))
    listen = app.store.listen
    ears: list[Any] = []

    async def deaf(on_wake: Any, on_finished: Any) -> Listener:
        ears.append(on_wake)
        return await listen(lambda: None, on_finished)

    monkeypatch.setattr(app.store, "listen", deaf)

    @app.task()
    async def work() -> None: ...

    async with working(app, poll=0.05):
        await eventually(lambda: app.store.sessions())
        for _ in range(2):
            handle = await work.enqueue()
            await eventually(lambda handle=handle: _is_over(handle))
        await eventually(lambda: "wakeup_degraded" in heard)
        ears[0]()
        await eventually(lambda: "wakeup_restored" in heard)


async def test_a_position_from_after_a_backup_is_told_as_a_reset(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        page = await app.store.events()
        epoch, _, seq = page.position.partition(":")
        later = await app.store.events(f"{epoch}:{int(seq) + 100}")
        assert (later.reset, len(later.events)) == (True, 1)
        told: list[int | None] = []
        events = [event async for event in app.events(after=f"{epoch}:{int(seq) + 100}", on_gap=told.append)]
        assert (told, len(events)) == ([None], 1)


async def test_a_checkpoint_is_as_strict_as_a_payload(app: Holdfast) -> None:
    errors: list[str] = []

    @app.task()
    async def work(job: Job) -> None:
        try:
            await job.save({"seen": {1, 2}})
        except TypeError as error:
            errors.append(str(error))

    async with working(app):
        await work.call()
    assert errors[0].startswith("checkpoint.seen is a set")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda app: Retry(initial="2"), "Retry(initial='2'): a number"),
        (lambda app: Rate("5"), "Rate('5', per=1.0): both are numbers above 0"),
        (lambda app: Retention(failed_count=-4), "Retention(failed_count=-4): a whole number from 0 on"),
        (lambda app: Retention(completed=-1), "Retention(completed=-1): seconds, from 0 on"),
        (lambda app: app.queue("q", rate=5), "rate=5: give Rate(count, per=seconds), or None for no limit"),
        (
            lambda app: app.queue("q", retention={"failed_cnt": 3}),
            "retention: 'failed_cnt' is not a field of it; known are completed, failed, failed_count",
        ),
        (lambda app: app.task(on_failure="x")(print_it), "task 'print_it': on_failure='x': give a task of this app"),
        (lambda app: _task(app).options(update_payload="no"), "update_payload='no': True or False"),
        (lambda app: _task(app).options(reset_counts="x"), "reset_counts='x': True, False, or None"),
    ],
)
def test_values_that_cannot_be_right_are_refused(app: Holdfast, make: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(app)
    assert str(refused.value).startswith(message)


async def test_calls_with_values_that_cannot_be_right_are_refused(app: Holdfast) -> None:
    queue = app.queue("q")
    async with app:
        with pytest.raises(ConfigError, match="limit=-1: a whole number from 1"):
            await app.jobs(limit=-1)
        for wrong in (-1, 0, 10**9 + 1, 10**22, 1.5, "5"):  # each store would say something else, or do something
            with pytest.raises(ConfigError, match=r"limit=.*: a whole number from 1 to 1000000000"):
                await app.requeue(queue="q", limit=wrong)  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match=r"limit=.*: a whole number from 1 to 1000000000"):
                await app.chains(limit=wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="key='': a concurrency key is a string of at least one character"):
            await queue.limit_key("", 3)
        with pytest.raises(ConfigError, match="concurrency='3': a whole number from 1 to 1000000000, or None"):
            await queue.limit_key("k", "3")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="'result_ttl_ms' is not a setting of a queue; known are paused"):
            await queue.set(clear=["result_ttl_ms"])
        with pytest.raises(ConfigError, match=r"ttl=-1\.0: give seconds from 0 on, or a timedelta"):
            await queue.keep_result("a", -1.0)
        assert await queue.keep_result("a", timedelta(seconds=5)) is Reply.MISSING


async def print_it() -> None: ...


def _task(app: Holdfast) -> Any:
    return app.task(name="it")(print_it)


async def _is_over(handle: Any) -> bool:
    return bool((await handle.job()).state.finished)


async def _is_active(app: Holdfast, id: str) -> bool:
    return (await app.status("default", id)).state is State.ACTIVE
