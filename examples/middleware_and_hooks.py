"""Middleware wraps each attempt; hooks hear of what happened. Retries, snoozing and progress on the way."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import Holdfast, HookEvent, Job, Permanent, Retry, Snooze

app = Holdfast("memory://")


@app.middleware
async def timed(job: Job, next: Callable[[], Awaitable[Any]]) -> Any:
    """Runs round every handler; it may change the result, the error, or `job.context`."""
    began = time.perf_counter()
    job.context["trace"] = f"trace-{job.id}"
    try:
        return await next()
    finally:
        print(f"{job.task} attempt {job.attempt}: {(time.perf_counter() - began) * 1000:.0f} ms")


@app.on("retry")
@app.on("fail")
def alert(happening: HookEvent) -> None:
    """A hook that raises is reported, and harms nothing."""
    print(f"{happening.name}: {happening.queue}/{happening.id}, now {happening.state}")


@app.on("worker_stopped")
async def farewell(happening: HookEvent) -> None:
    """Hooks may be asynchronous."""
    print(f"the worker stopped: {happening.detail}")


@app.task(retry=Retry(failures=3, initial=0.01))
async def fetch(job: Job, page: str) -> str:
    """Fails once, and is tried again after 10 ms."""
    if job.last_error is None:
        raise ConnectionError(f"{page} did not answer")
    return f"{page} after {job.last_error.type}, {job.context['trace']}"


@app.task()
async def patient(job: Job) -> str:
    """Not yet: come back in 20 ms. That costs no failure."""
    if job.attempt == 1:
        await job.progress(0.5, "waiting for the tide")
        raise Snooze(after=0.02)
    return f"attempt {job.attempt}, {job.counters.failures} failures"


@app.task()
async def hopeless() -> None:
    raise Permanent("no retry would help")


async def main() -> None:
    async with app:
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        print(await fetch.options(job_id="page-1").call("index.html"))
        print(await patient.options(job_id="tide").call())
        handle = await hopeless.options(job_id="lost").enqueue()
        worker.stop()
        await working
        print((await handle.job()).state)


if __name__ == "__main__":
    asyncio.run(main())
