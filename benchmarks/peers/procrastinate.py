"""procrastinate: jobs in PostgreSQL by psycopg, one worker with 100 slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.script import Stopwatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System

CHUNK = 1_000

SYSTEMS = (
    System(
        name="procrastinate",
        script=__name__,
        store="postgres",
        packages=("procrastinate", "psycopg[binary,pool]"),
        measures=("enqueue", "bulk", "drain", "latency"),
        most=(("drain", 2_000), ("enqueue", 2_000)),
        note="psycopg, concurrency 100; an event for each status, no results",
    ),
)


def application(place: Place, then: Callable[[], object] = lambda: None) -> tuple[Any, Any]:
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=place.url))

    @app.task(name="noop", queue="bench")
    async def noop(data: str) -> None:
        then()

    return app, noop


async def prepared(app: Any) -> None:
    if not await app.check_connection_async():
        await app.schema_manager.apply_schema_async()


def enqueue(place: Place) -> float:
    async def one_by_one() -> float:
        app, noop = application(place)
        async with app.open_async():
            await prepared(app)
            with Stopwatch() as watch:
                for _ in range(place.jobs):
                    await noop.defer_async(data=PAYLOAD)
        return watch.seconds

    return asyncio.run(one_by_one())


def bulk(place: Place) -> float:
    return asyncio.run(fill(place))


async def fill(place: Place) -> float:
    app, noop = application(place)
    async with app.open_async():
        await prepared(app)
        with Stopwatch() as watch:
            for start in range(0, place.jobs, CHUNK):
                count = min(CHUNK, place.jobs - start)
                await noop.batch_defer_async(*({"data": PAYLOAD} for _ in range(count)))
    return watch.seconds


def drain(place: Place) -> float:
    asyncio.run(fill(place))

    async def work() -> float:
        done = 0

        def count() -> None:
            nonlocal done
            done += 1

        app, _ = application(place, count)
        async with app.open_async():
            with Stopwatch() as watch:
                await app.run_worker_async(queues=["bench"], concurrency=100, wait=False, install_signal_handlers=False)
        require(done, place.jobs)
        return watch.seconds

    return asyncio.run(work())


def serve(place: Place) -> None:
    async def work() -> None:
        app, _ = application(place, started)
        async with app.open_async():
            await prepared(app)
            await app.run_worker_async(queues=["bench"], concurrency=100)

    asyncio.run(work())


def send(place: Place) -> Callable[[], object]:
    runner = asyncio.Runner()
    app, noop = application(place)

    async def enter() -> None:
        await app.open_async()
        await prepared(app)

    async def one() -> None:
        await noop.defer_async(data=PAYLOAD)

    runner.run(enter())
    return lambda: runner.run(one())


if __name__ == "__main__":
    main(globals())
