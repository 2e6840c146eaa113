"""A chain whose first job runs in a process, of an app with producer middleware."""

from __future__ import annotations

import os

from holdfast import Continued, Holdfast, Job, OutgoingJob

app = Holdfast(os.environ.get("HOLDFAST_TEST_URL", "memory://producers"))


@app.producer_middleware
async def stamp(job: OutgoingJob) -> None:
    job.headers["seen"] = f"{job.headers.get('seen', '')}{job.origin} "


@app.task
async def last(job: Job) -> str:
    return job.headers["seen"]


@app.task(executor="process")
def first_in_thread(job: Job) -> Continued[str]:
    return job.continue_with(last)


@app.task(executor="process")
async def first(job: Job) -> Continued[str]:
    return job.continue_with(last)
