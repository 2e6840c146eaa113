"""How many workers one job wakes: claims sent for each job while fifty workers are idle."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.app import QUEUE, application, run
from benchmarks.script import say
from benchmarks.system import PAYLOAD, Place

WORKERS = 50
JOBS = 200
SETTLING, QUIET = 2.0, 2.0
"""Seconds for all workers to be idle, and to count what they send when nothing happens."""


class Tally:
    """EnqueueCounts the calls of a store that ask for jobs."""

    def __init__(self) -> None:
        self.claims = 0

    def watch(self, store: Any) -> None:
        really = store.settle_and_claim

        async def counted(session: Any, settlements: Any, queues: Any, room: int, *rest: Any, **options: Any) -> Any:
            self.claims += bool(room and queues)
            return await really(session, settlements, queues, room, *rest, **options)

        store.settle_and_claim = counted


def wakes(place: Place) -> None:
    """Claims for each job, less those that idle workers send anyway. 2 is one for the job and one when it is done."""
    say(metric="wakes", value=run(_wakes(place)))


async def _wakes(place: Place) -> float:
    tally = Tally()
    async with AsyncExitStack() as stack:
        workers = [asyncio.create_task(await _worker(stack, place, tally)) for _ in range(WORKERS)]
        app, noop = application(place)
        await stack.enter_async_context(app)
        await noop.call(PAYLOAD)
        await asyncio.sleep(SETTLING)
        idle = await _while(tally, asyncio.sleep(QUIET))
        busy = await _while(tally, _jobs(noop))
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return claims_per_job(idle, busy, JOBS)


async def _worker(stack: AsyncExitStack, place: Place, tally: Tally) -> Any:
    """An app of its own, with its own connections, as another process would have."""
    app, _ = application(place)
    tally.watch(app.store)
    await stack.enter_async_context(app)
    return app.worker(queues=[QUEUE], slots=1).run(signals=False)


async def _jobs(noop: Any) -> None:
    for _ in range(JOBS):
        await noop.call(PAYLOAD)


async def _while(tally: Tally, work: Any) -> tuple[int, float]:
    """Claims that were sent meanwhile, and seconds."""
    before, began = tally.claims, time.perf_counter()
    await work
    return tally.claims - before, time.perf_counter() - began


def claims_per_job(idle: tuple[int, float], busy: tuple[int, float], jobs: int) -> float:
    """What came on top of idle polling, for each job."""
    claims, seconds = busy
    return (claims - idle[0] / idle[1] * seconds) / jobs
