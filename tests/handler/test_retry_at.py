"""A failure that sets its own time counts, and comes back then; garbage in the time harms nobody."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import retry_at_tasks
from support import burst, eventually, working

from holdfast import ConfigError, Holdfast, HookEvent, Job, JobFailed, JobRecord, Retry, RetryAt, Snooze
from holdfast.core.state import State

EXECUTORS = ["inline", "thread", "process", "sandbox"]
DUE = round(retry_at_tasks.WHEN.timestamp() * 1000)


async def after_one(executor: str, *whats: str) -> dict[str, JobRecord]:
    """Return the jobs that failed once with each of these errors."""
    async with working(retry_at_tasks.app, pool=1):
        task = retry_at_tasks.TASKS[executor]
        handles = {what: await task.enqueue(what) for what in whats}

        async def all_failed() -> bool:
            return all([(await handle.job()).counters.failures for handle in handles.values()])

        await eventually(all_failed)
        found = {what: await handle.job() for what, handle in handles.items()}
        for handle in handles.values():
            await handle.cancel()
    return found


def waits(job: JobRecord) -> int:
    """Return for how many seconds it waits after its first attempt, about."""
    assert job.started_at_ms is not None
    return (job.run_at_ms - job.started_at_ms) // 1000


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_failure_comes_back_when_it_says_so_and_counts(executor: str) -> None:
    wanted = {
        "delay": 30, "timedelta": 31, "chained": 40, "alone": 41, "permanent": 42, "retry_after": 50,
        "retry_after as a timedelta": 51, "one of both": 52,
    }  # fmt: skip
    instants = ["at", "retry_at", "retry_at in seconds", "both"]
    jobs = await after_one(executor, *wanted, *instants)
    assert {(job.state, job.counters.failures) for job in jobs.values()} == {(State.SCHEDULED, 1)}
    assert all(0 <= waits(jobs[what]) - seconds < 20 for what, seconds in wanted.items())
    assert [jobs[what].run_at_ms for what in instants] == [DUE] * len(instants)
    errors = {what: job.error for what, job in jobs.items()}
    assert all(error is not None for error in errors.values())
    kept = {what: (error.type, error.message) for what, error in errors.items() if error is not None}
    assert kept["delay"] == ("ValueError", "no")
    assert kept["chained"] == ("KeyError", "'price'")
    assert kept["alone"] == ("RetryAt", "try again after 41")
    assert kept["permanent"] == ("Permanent", "not at all")
    assert kept["retry_after"] == ("retry_at_tasks.Busy", "busy")


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_garbage_for_a_time_is_a_failure_as_any_other(executor: str) -> None:
    jobs = await after_one(executor, *retry_at_tasks.GARBAGE)
    assert {what: waits(job) // 20 for what, job in jobs.items()} == dict.fromkeys(jobs, 100), "the policy's own wait"
    assert {job.error and job.error.message for job in jobs.values()} == {"busy"}


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_time_that_a_handler_got_wrong_is_told(executor: str) -> None:
    jobs = await after_one(executor, "wrong", "naive")
    told = {what: job.error.message if job.error else "" for what, job in jobs.items()}
    assert told["wrong"] == "RetryAt(when)=nan: give a datetime with a time zone, or seconds since the epoch"
    assert told["naive"].endswith("has no time zone; use datetime.now(UTC) or .astimezone()")


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_an_endless_429_fails_at_the_limit_of_failures(executor: str) -> None:
    async with working(retry_at_tasks.app, pool=1):
        handle = await retry_at_tasks.TASKS[executor].enqueue("past")
        with pytest.raises(JobFailed, match="ValueError: no"):
            await handle.result()
        assert (await handle.job()).counters.failures == 2


async def test_hooks_and_the_next_attempt_see_the_failure_itself() -> None:
    app, heard, seen = Holdfast("memory://"), [], []
    failure = ConnectionError("429")

    @app.task(retry=Retry(failures=2))
    async def fetch(job: Job) -> None:
        seen.append(job.last_error)
        raise RetryAt(delay=0) from failure

    @app.on("retry")
    def retried(happening: HookEvent) -> None:
        heard.append(happening.error)

    async with app:
        await fetch.enqueue()
        await burst(app)
    assert heard == [failure]
    assert [error and error.type for error in seen] == [None, "ConnectionError"]


async def test_caps_end_what_would_never_end() -> None:
    app = Holdfast("memory://")

    @app.task(retry=Retry(attempts=4))
    async def poll() -> None:
        raise Snooze(after=0)

    @app.task(retry=Retry(snoozes=2))
    async def wait() -> None:
        raise Snooze(after=0)

    heard: list[HookEvent] = []
    app.on("fail")(heard.append)
    async with app:
        handles = [await poll.enqueue(), await wait.enqueue()]
        await burst(app)
        messages = []
        for handle in handles:
            with pytest.raises(JobFailed) as caught:
                await handle.result()
            messages.append(caught.value.error.message)
        kept = [(await handle.job()).counters for handle in handles]
    assert messages == ["4 attempts, and no more are allowed", "2 snoozes, and no more are allowed"]
    told = {each.id: each.counters for each in heard}
    assert [told[handle.id] for handle in handles] == kept


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "exactly one of a time"),
        ({"when": 5, "delay": 5}, "exactly one of a time"),
        ({"delay": 5, "error": "text"}, r"RetryAt\(error='text'\): an exception"),
    ],
)
def test_what_says_no_time_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RetryAt(**values)


def test_it_says_what_it_is() -> None:
    failure = ValueError("no")
    error = RetryAt(datetime(2100, 1, 1, tzinfo=UTC), failure)
    assert (str(error), error.error) == ("try again at 2100-01-01 00:00:00+00:00: no", failure)
