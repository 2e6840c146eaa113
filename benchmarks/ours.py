"""Holdfast by its public API: what any user would write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing

from benchmarks.app import QUEUE, SLOTS, address, application, burst, fill, fill_elsewhere, new_runner, run
from benchmarks.compare.memory import memory
from benchmarks.compare.wake import wakes
from benchmarks.script import CostWatch, main, note_done, require, say, started
from benchmarks.system import PAYLOAD, SLEEP, SLEEPERS, TOIL, Place, System
from benchmarks.trips import trips

__all__ = ["SYSTEMS", "memory", "wakes"]

SYSTEMS = (
    System(
        name="holdfast",
        script=__name__,
        store="sqlite",
        measures=("enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint", "memory", "recovery"),
        note=f"WAL, NORMAL; {SLOTS} slots; an event for every transition",
    ),
    System(
        name="holdfast at FULL",
        script=__name__,
        store="sqlite",
        measures=("enqueue", "bulk", "drain", "call"),
        variant="full",
        note="the same with synchronous=full, for peers that sync at every commit",
    ),
    System(
        name="holdfast memory://",
        script=__name__,
        store="sqlite",
        measures=("enqueue", "bulk", "drain"),
        variant="memory",
        note="producer and worker in one process",
    ),
    System(
        name="holdfast",
        script=__name__,
        store="redis",
        measures=("enqueue", "bulk", "drain", "latency", "call", "sleep", "wakes", "footprint", "memory", "recovery"),
        log=f"{{holdfast:{QUEUE}}}:events",
        note=f"one server without a disk; {SLOTS} slots; an event for every transition",
    ),
    *(
        System(
            name=f"bare call{remark}",
            script="benchmarks.floor.bare",
            store="redis",
            measures=("enqueue",),
            variant=variant,
            note=f"the same server function with the same arguments, made before the watch started, by {client}",
        )
        for remark, variant, client in (
            ("", "", "our own connection"),
            (" by redis-py", "redis-py", "redis.asyncio"),
        )
    ),
    System(
        name="holdfast",
        script=__name__,
        store="postgres",
        measures=("enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint", "wal", "memory", "recovery"),
        note=f"fsync and synchronous_commit on; {SLOTS} slots; an event for every transition",
    ),
    *(
        System(
            name="holdfast, 100 tasks",
            script=__name__,
            store=store,
            measures=("enqueue",),
            variant="gathered",
            note="one job after the other by each of 100 tasks of one process, whose enqueues share calls",
        )
        for store in ("sqlite", "redis", "postgres")
    ),
    *(
        System(
            name="holdfast, nowait",
            script=__name__,
            store=store,
            measures=("enqueue",),
            variant="nowait",
            note="one job after the other by `enqueue_nowait` of one task, which flushes after each thousand",
        )
        for store in ("sqlite", "redis", "postgres")
    ),
)
GATHERED = 100
FLUSHED = 1000


def enqueue(place: Place) -> CostWatch:
    """One job after the other; or several tasks, each of which does so; or without waiting for each."""
    tasks = GATHERED if place.variant == "gathered" else 1

    async def enqueue_all() -> CostWatch:
        app, noop = application(place)

        async def one_by_one(jobs: int) -> None:
            for number in range(jobs):
                if place.variant != "nowait":
                    await noop.enqueue(PAYLOAD)
                    continue
                noop.enqueue_nowait(PAYLOAD)
                if number % FLUSHED == 0:
                    await app.flush()
            await app.flush()

        async with app:
            with CostWatch() as watch:
                async with asyncio.TaskGroup() as group:
                    for number in range(tasks):
                        group.create_task(one_by_one(len(range(number, place.jobs, tasks))))
        return watch

    return run(enqueue_all())


def bulk(place: Place) -> CostWatch:
    async def at_once() -> CostWatch:
        app, noop = application(place)
        async with app:
            with CostWatch() as watch:
                await fill(noop, place.jobs)
        return watch

    return run(at_once())


def drain(place: Place) -> CostWatch:
    """The whole of a worker's run in burst mode, its start and its stop included."""

    if place.variant == "memory":
        return run(burst(place, fill_first=True))
    fill_elsewhere(place)
    watch = run(burst(place))
    require(completed(place), place.jobs)
    return watch


def serve(place: Place) -> None:
    async def work() -> None:
        app, _ = application(place, started)
        async with app:
            await app.worker(queues=[QUEUE], slots=SLOTS).run()

    run(work())


def call(place: Place) -> None:
    """Round trips: one caller after the other, and many at once."""

    async def calls() -> None:
        app, noop = application(place)
        async with app:
            await trips(lambda: noop.call(PAYLOAD))

    run(calls())


def sleep(place: Place) -> None:
    """How well a worker keeps its slots full."""

    async def sleeping() -> CostWatch:
        from holdfast import Holdfast

        app = Holdfast(address(place))

        @app.task(queue=QUEUE)
        async def nap() -> None:
            await asyncio.sleep(SLEEP)

        async with app:
            await nap.enqueue_many(nap.args() for _ in range(SLEEPERS))
            with CostWatch() as watch:
                report = await app.worker(queues=[QUEUE], slots=SLOTS).run(burst=True)
        require(report.completed, SLEEPERS)
        return watch

    say(metric="sleep", value=run(sleeping()).seconds)


def send(place: Place) -> Callable[[], object]:
    """The loop stands still between two jobs, as in a program that has nothing to say."""
    runner = new_runner()
    app, noop = application(place)

    async def enter() -> None:
        await app.__aenter__()

    async def one() -> None:
        await noop.enqueue(PAYLOAD)

    runner.run(enter())
    return lambda: runner.run(one())


def load(place: Place) -> None:
    """Jobs that carry their number."""

    async def enqueue_all() -> None:
        app, noop = application(place)
        async with app:
            await noop.enqueue_many(noop.args(str(number)) for number in range(place.jobs))

    run(enqueue_all())


def toil(place: Place) -> None:
    """A worker that notes which jobs it has done, until it is killed."""

    async def work() -> None:
        from holdfast import Holdfast

        app = Holdfast(address(place))

        @app.task(queue=QUEUE)
        async def noop(data: str) -> None:
            await asyncio.sleep(TOIL)
            note_done(place, data)

        async with app:
            await app.worker(queues=[QUEUE], slots=SLOTS).run()

    run(work())


def completed(place: Place) -> int:
    """How many jobs the store itself says are completed."""
    if "://" in place.url:
        return run(completed_by_counts(place))
    with closing(sqlite3.connect(place.url)) as connection:
        found = connection.execute("SELECT count(*) FROM holdfast_job WHERE state = 'completed'").fetchone()
    return int(found[0])


async def completed_by_counts(place: Place) -> int:
    app, _ = application(place)
    async with app:
        return sum(queue.counts["completed"] for queue in await app.queues())


if __name__ == "__main__":
    main(globals())
