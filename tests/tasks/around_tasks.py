"""Handlers that tell what they can see of their surroundings, in each executor; processes import this module."""

from __future__ import annotations

from typing import Any

from holdfast import Holdfast, Job, Retry, Sandbox

RETRY = Retry(failures=3, initial=0.001, attempts=9)
app = Holdfast("memory://around")


def seen(job: Job) -> list[Any]:
    return [job.worker, job.retry.failures, job.retry.attempts, job.timeout, job.last_attempt, job.snoozes]


async def inline(job: Job, failing: int = 0) -> list[Any]:
    return raising(job, failing)


def thread(job: Job, failing: int = 0) -> list[Any]:
    return raising(job, failing)


def process(job: Job, failing: int = 0) -> list[Any]:
    return raising(job, failing)


def sandbox(job: Job, failing: int = 0) -> list[Any]:
    return raising(job, failing)


def raising(job: Job, failing: int) -> list[Any]:
    if job.attempt <= failing:
        assert not job.last_attempt
        raise LookupError("again")
    return seen(job)


TASKS = {
    "inline": app.task(retry=RETRY, timeout=30)(inline),
    "thread": app.task(retry=RETRY, timeout=30)(thread),
    "process": app.task(retry=RETRY, timeout=30, executor="process")(process),
    "sandbox": app.task(retry=RETRY, timeout=30, executor="sandbox", sandbox=Sandbox())(sandbox),
}
inline, thread, process, sandbox = TASKS.values()  # type: ignore[assignment]
