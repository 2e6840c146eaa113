"""The app under attack: each handler writes down, outside the store, that it ran."""

from __future__ import annotations

import os

from holdfast import Holdfast, Job, Retry

app = Holdfast(os.environ.get("CHAOS_URL", "memory://"))
LEDGER = os.environ.get("CHAOS_LEDGER", os.devnull)


def note(job: Job, word: str) -> None:
    """One line, written in one call, so that no kill can tear it."""
    line = f"{word} {job.id} {job.run} {job.attempt}\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@app.task(queue="rescue")
async def rescue(job: Job, number: int) -> None:
    """The fail handler of `work`."""
    assert job.failed is not None
    note(job, "rescued")


@app.task(queue="work", retry=Retry(failures=4, stalls=None, initial=0.05, maximum=0.2), on_failure=rescue)
async def work(job: Job, number: int) -> int:
    """Take a little time; every tenth fails at first, every fiftieth always."""
    note(job, "ran")
    await job.progress(0.5)  # a round trip, in which a kill may come
    if number % 50 == 49 or (number % 10 == 9 and job.attempt == 1):
        raise RuntimeError(f"number {number} does not work")
    return number * 2
