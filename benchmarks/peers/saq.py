"""SAQ on Redis: one worker with 100 slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.script import Stopwatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System

SYSTEMS = (
    System(
        name="saq",
        script=__name__,
        store="redis",
        packages=("saq[redis,hiredis]", "typing_extensions"),
        measures=("enqueue", "drain", "latency"),
        most=(("drain", 5_000), ("enqueue", 5_000)),
        note="concurrency 100, dequeue_timeout 0.1; no bulk",
    ),
)


def queue(place: Place) -> Any:
    from saq import Queue

    return Queue.from_url(place.url)


def enqueue(place: Place) -> float:
    return asyncio.run(fill(place))


async def fill(place: Place) -> float:
    made = queue(place)
    await made.connect()
    with Stopwatch() as watch:
        for _ in range(place.jobs):
            await made.enqueue("noop", data=PAYLOAD)
    await made.disconnect()
    return watch.seconds


def drain(place: Place) -> float:
    asyncio.run(fill(place))
    return asyncio.run(work(place, place.jobs, lambda: None))


async def work(place: Place, jobs: int, then: Callable[[], object]) -> float:
    from saq import Worker

    over, done = asyncio.Event(), 0

    async def noop(context: Any, *, data: str) -> None:
        nonlocal done
        done += 1
        then()
        if done == jobs:
            over.set()

    worker = Worker(queue(place), [("noop", noop)], concurrency=100, dequeue_timeout=0.1)
    with Stopwatch() as watch:
        running = asyncio.create_task(worker.start())
        await over.wait()
    await worker.stop()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    require(done, jobs)
    return watch.seconds


def serve(place: Place) -> None:
    asyncio.run(work(place, -1, started))


def send(place: Place) -> Callable[[], object]:
    runner = asyncio.Runner()
    made = queue(place)
    runner.run(made.connect())

    async def one() -> None:
        await made.enqueue("noop", data=PAYLOAD)

    return lambda: runner.run(one())


if __name__ == "__main__":
    main(globals())
