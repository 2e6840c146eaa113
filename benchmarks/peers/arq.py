"""arq on Redis: one worker with 100 slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.script import Stopwatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System

SYSTEMS = (
    System(
        name="arq",
        script=__name__,
        store="redis",
        packages=("arq", "hiredis"),
        measures=("enqueue", "drain", "latency"),
        most=(("drain", 5_000), ("enqueue", 5_000)),
        note="max_jobs 100, poll_delay 0.01 (0.5 as it comes); no bulk",
    ),
)


def settings(place: Place) -> Any:
    from arq.connections import RedisSettings

    return RedisSettings.from_dsn(place.url)


def enqueue(place: Place) -> float:
    return asyncio.run(fill(place))


async def fill(place: Place) -> float:
    from arq import create_pool

    pool = await create_pool(settings(place))
    with Stopwatch() as watch:
        for _ in range(place.jobs):
            await pool.enqueue_job("noop", PAYLOAD)
    await pool.aclose()
    return watch.seconds


def drain(place: Place) -> float:
    asyncio.run(fill(place))
    done = 0

    async def noop(context: Any, data: str) -> None:
        nonlocal done
        done += 1

    with Stopwatch() as watch:
        worker(place, noop, burst=True)
    require(done, place.jobs)
    return watch.seconds


def worker(place: Place, noop: Any, burst: bool) -> None:
    from arq.worker import Worker, func

    asyncio.set_event_loop(asyncio.new_event_loop())
    made = Worker(
        [func(noop, name="noop")],
        redis_settings=settings(place),
        burst=burst,
        max_jobs=100,
        poll_delay=0.01,
        handle_signals=False,
    )
    made.run()


def serve(place: Place) -> None:
    async def noop(context: Any, data: str) -> None:
        started()

    worker(place, noop, burst=False)


def send(place: Place) -> Callable[[], object]:
    from arq import create_pool

    runner = asyncio.Runner()
    pool = runner.run(create_pool(settings(place)))

    async def one() -> None:
        await pool.enqueue_job("noop", PAYLOAD)

    return lambda: runner.run(one())


if __name__ == "__main__":
    main(globals())
