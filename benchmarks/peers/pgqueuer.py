"""pgqueuer: jobs in PostgreSQL by asyncpg, in batches. It keeps no result and no event for each transition."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from benchmarks.script import Stopwatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System

BATCH = 100
CHUNK = 1_000

SYSTEMS = (
    System(
        name="pgqueuer",
        script=__name__,
        store="postgres",
        packages=("pgqueuer[asyncpg]", "asyncpg", "uvloop"),
        measures=("enqueue", "bulk", "drain", "latency"),
        note=f"asyncpg, uvloop; batches of {BATCH}; a status log for each job, no results",
    ),
)


async def connect(place: Place) -> tuple[Any, Any]:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    driver = AsyncpgDriver(await asyncpg.connect(place.url))
    queries = Queries(driver)
    if not await queries.has_table("pgqueuer"):
        await queries.install()
    return driver, queries


def enqueue(place: Place) -> float:
    async def one_by_one() -> float:
        _, queries = await connect(place)
        with Stopwatch() as watch:
            for _ in range(place.jobs):
                await queries.enqueue("bench", PAYLOAD.encode())
        return watch.seconds

    return run(one_by_one())


def bulk(place: Place) -> float:
    async def at_once() -> float:
        _, queries = await connect(place)
        with Stopwatch() as watch:
            await fill(queries, place.jobs)
        return watch.seconds

    return run(at_once())


async def fill(queries: Any, jobs: int) -> None:
    for start in range(0, jobs, CHUNK):
        count = min(CHUNK, jobs - start)
        await queries.enqueue(["bench"] * count, [PAYLOAD.encode()] * count, [0] * count)


def drain(place: Place) -> float:
    async def work() -> float:
        from pgqueuer import PgQueuer
        from pgqueuer.types import QueueExecutionMode

        driver, queries = await connect(place)
        await fill(queries, place.jobs)
        worker = PgQueuer(driver)
        done = 0

        @worker.entrypoint("bench")
        async def noop(job: Any) -> None:
            nonlocal done
            done += 1

        with Stopwatch() as watch:
            await worker.run(
                batch_size=BATCH, dequeue_timeout=timedelta(seconds=1), mode=QueueExecutionMode.drain
            )  # fmt: skip
        require(done, place.jobs)
        return watch.seconds

    return run(work())


def serve(place: Place) -> None:
    async def work() -> None:
        from pgqueuer import PgQueuer

        driver, _ = await connect(place)
        worker = PgQueuer(driver)

        @worker.entrypoint("bench")
        async def noop(job: Any) -> None:
            started()

        await worker.run(batch_size=BATCH)

    run(work())


def send(place: Place) -> Any:
    runner = asyncio.Runner()
    _, queries = runner.run(connect(place))
    return lambda: runner.run(queries.enqueue("bench", PAYLOAD.encode()))


def run(work: Any) -> Any:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


if __name__ == "__main__":
    main(globals())
