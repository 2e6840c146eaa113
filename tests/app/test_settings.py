"""Settings: the job's, then its task's, its queue's, the app's, the library's; and which of them won."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support import burst

from holdfast import ConfigError, Holdfast, Rate, Retry, State, Task


def won(task: Task[..., None], name: str) -> tuple[object, str]:
    (found,) = (each for each in task.settings() if each.name == name)
    return found.value, found.source


async def nothing() -> None: ...


def test_the_library_decides_when_nobody_else_does() -> None:
    task = Holdfast("memory://").task()(nothing)
    assert won(task, "retry") == (Retry(), "library")
    assert won(task, "timeout") == (None, "library")
    assert won(task, "result_ttl") == (3600.0, "library")
    assert won(task, "priority") == (0, "library")
    assert won(task, "codec") == ("json", "library")


def test_each_layer_wins_over_those_below() -> None:
    app = Holdfast("memory://", timeout=1, retry=Retry(failures=1))
    task = app.task(queue="mail")(nothing)
    assert won(task, "timeout") == (1, "app")
    app.queue("mail", timeout=2)
    assert won(task, "timeout") == (2, "queue")
    assert won(task, "retry") == (Retry(failures=1), "app")
    own = app.task(queue="mail", name="own", timeout=3)(nothing)
    assert won(own, "timeout") == (3, "task")
    job = own.options(timeout=timedelta(seconds=4), priority=9)
    assert won(job, "timeout") == (timedelta(seconds=4), "job")
    assert won(job, "priority") == (9, "job")
    assert won(job, "retry") == (Retry(failures=1), "app")
    assert won(own, "timeout") == (3, "task"), "options change nothing for others"


def test_a_fail_handler_shows_its_own_retry() -> None:
    app = Holdfast("memory://")
    alarm = app.task(name="alarm")(nothing)
    app.task(name="work", on_failure=alarm)(nothing)
    value, source = won(alarm, "retry")
    assert isinstance(value, Retry)
    assert (value.failures, source) == (100, "library")


async def test_the_time_to_live_of_a_result_follows_the_layers(url: str) -> None:
    app = Holdfast(url, result_ttl=100)
    app.queue("two", result_ttl=200)
    tasks = [
        app.task(queue="one", name="app")(nothing),
        app.task(queue="two", name="queue")(nothing),
        app.task(queue="two", name="task", result_ttl=300)(nothing),
    ]
    tasks.append(tasks[2].options(result_ttl=400))
    async with app:
        handles = [await task.enqueue() for task in tasks]
        await burst(app)
        jobs = [await handle.job() for handle in handles]
    assert [job.state for job in jobs] == [State.COMPLETED] * 4
    kept = [(job.expires_at_ms or 0) - (job.finished_at_ms or 0) for job in jobs]
    assert kept == [100_000, 200_000, 300_000, 400_000]


async def test_the_retry_of_app_and_queue_hold_in_the_worker(url: str) -> None:
    async def broken() -> None:
        raise ValueError

    app = Holdfast(url, retry=Retry(failures=1))
    app.queue("two", retry=Retry(failures=2, initial=0.01))
    of_app = app.task(queue="one", name="of_app")(broken)
    of_queue = app.task(queue="two", name="of_queue")(broken)
    async with app:
        handles = [await of_app.enqueue(), await of_queue.enqueue()]
        await burst(app)
        failures = [(await handle.job()).counters.failures for handle in handles]
    assert failures == [1, 2]


async def test_a_worker_leaves_the_limits_of_queues_that_its_app_never_names(url: str) -> None:
    limits, other, named = Holdfast(url), Holdfast(url, version=5, result_ttl=60), Holdfast(url, version=6)
    for app in (limits, other, named):
        app.task(name="work", queue="q")(nothing)
    limits.queue("q", concurrency=1, rate=Rate(5))
    named.queue("q", concurrency=None)
    for app, found in ((limits, (1, Rate(5), 3600)), (other, (1, Rate(5), 60)), (named, (None, None, 3600))):
        await burst(app)
        async with app:
            info = await app.queue("q").info()
        assert info is not None
        settings = info.settings
        assert (settings.concurrency, settings.rate, settings.result_ttl_ms / 1000) == found


def test_a_queue_that_is_named_alone_is_served(app: Holdfast) -> None:
    app.task(name="work", queue="tasks")(nothing)
    app.queue("handled", handler="plain_handlers:echo")
    app.queue("limited", concurrency=1)
    app.queue("named")
    assert app.worker().queues == ("tasks", "handled", "limited", "named")


@pytest.mark.parametrize("version", [-1, 1.5, "1", None, True, float("nan"), 2**53])
def test_a_version_is_a_whole_number(version: Any) -> None:
    with pytest.raises(ConfigError, match=r"version=.*: a whole number from 0 on, higher with each change"):
        Holdfast("memory://", version=version)
