"""Holdfast by its public API: what any user would write."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.script import Stopwatch, main, require, say, started
from benchmarks.system import CALLERS, CALLS, PAYLOAD, SLEEP, SLEEPERS, Place, System

T = TypeVar("T")

QUEUE = "bench"
SLOTS = 100
EARLY, LATE = 20_000, 200_000

SYSTEMS = (
    System(
        name="holdfast",
        script=__name__,
        store="sqlite",
        measures=("enqueue", "bulk", "drain", "latency", "memory"),
        note=f"WAL, NORMAL; {SLOTS} slots; an event for every transition",
    ),
    System(
        name="holdfast at FULL",
        script=__name__,
        store="sqlite",
        measures=("enqueue", "bulk", "drain"),
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
        measures=("enqueue", "bulk", "drain", "latency", "call", "sleep", "memory"),
        note=f"one server without a disk; {SLOTS} slots; an event for every transition",
    ),
    System(
        name="holdfast",
        script=__name__,
        store="postgres",
        measures=("enqueue", "bulk", "drain", "latency", "memory"),
        note=f"fsync and synchronous_commit on; {SLOTS} slots; an event for every transition",
    ),
)


def address(place: Place) -> str:
    if place.variant == "memory":
        return "memory://"
    if "://" in place.url:
        return place.url
    return f"sqlite:///{place.url}" + ("?synchronous=full" if place.variant == "full" else "")


def application(place: Place, then: Callable[[], object] = lambda: None) -> tuple[Any, Any]:
    """An app and its one task, whose handler does nothing but call `then`."""
    from holdfast import Holdfast

    app = Holdfast(address(place))

    @app.task(queue=QUEUE)
    async def noop(data: str) -> None:
        then()

    return app, noop


def enqueue(place: Place) -> float:
    async def one_by_one() -> float:
        app, noop = application(place)
        async with app:
            with Stopwatch() as watch:
                for _ in range(place.jobs):
                    await noop.enqueue(PAYLOAD)
        return watch.seconds

    return run(one_by_one())


def bulk(place: Place) -> float:
    async def at_once() -> float:
        app, noop = application(place)
        async with app:
            with Stopwatch() as watch:
                await fill(noop, place.jobs)
        return watch.seconds

    return run(at_once())


def drain(place: Place) -> float:
    """The whole of a worker's run in burst mode, its start and its stop included."""

    if place.variant == "memory":
        return run(burst(place, fill_first=True))
    fill_elsewhere(place)
    seconds = run(burst(place))
    require(completed(place), place.jobs)
    return seconds


async def burst(place: Place, then: Callable[[], object] = lambda: None, *, fill_first: bool = False) -> float:
    handled = 0

    def count() -> None:
        nonlocal handled
        handled += 1
        then()

    app, noop = application(place, count)
    async with app:
        if fill_first:
            await fill(noop, place.jobs)
        worker = app.worker(queues=[QUEUE], slots=SLOTS)
        with Stopwatch() as watch:
            await worker.run(burst=True)
    require(handled, place.jobs)
    return watch.seconds


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
            for _ in range(CALLS):
                await noop.call(PAYLOAD)
            say(metric="call_p50", value=statistics.median([await timed(noop) for _ in range(5 * CALLS)]) * 1000)

            async def caller() -> None:
                for _ in range(CALLS):
                    await noop.call(PAYLOAD)

            with Stopwatch() as watch:
                await asyncio.gather(*(caller() for _ in range(CALLERS)))
        say(metric="callers", value=CALLERS * CALLS / watch.seconds)

    run(calls())


async def timed(noop: Any) -> float:
    with Stopwatch() as watch:
        await noop.call(PAYLOAD)
    return watch.seconds


def sleep(place: Place) -> None:
    """How well a worker keeps its slots full."""

    async def sleeping() -> float:
        from holdfast import Holdfast

        app = Holdfast(address(place))

        @app.task(queue=QUEUE)
        async def nap() -> None:
            await asyncio.sleep(SLEEP)

        async with app:
            await nap.enqueue_many(nap.args() for _ in range(SLEEPERS))
            with Stopwatch() as watch:
                report = await app.worker(queues=[QUEUE], slots=SLOTS).run(burst=True)
        require(report.completed, SLEEPERS)
        return watch.seconds

    say(metric="sleep", value=run(sleeping()))


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


def memory(place: Place) -> None:
    """What one worker holds after many jobs, beside what it held after few."""
    if place.url.startswith("redis"):
        server_memory(place)
    place = replace(place, jobs=LATE)
    fill_elsewhere(place)
    seen: dict[int, int] = {}
    count = itertools.count(1)

    def note() -> None:
        done = next(count)
        if done in (EARLY, LATE):
            seen[done] = resident_bytes()

    run(burst(place, note))
    say(metric="rss_early", value=seen[EARLY] / 1e6)
    say(metric="rss_late", value=seen[LATE] / 1e6)
    say(metric="rss_growth", value=seen[LATE] / seen[EARLY])


async def fill(noop: Any, jobs: int) -> None:
    await noop.enqueue_many(noop.args(PAYLOAD) for _ in range(jobs))


def fill_elsewhere(place: Place) -> None:
    """The jobs are in the store, put there by another process: the worker's own stays as it starts."""
    options = (f"--{name}={getattr(place, name)}" for name in ("url", "folder", "jobs", "variant"))
    subprocess.run([sys.executable, "-m", "benchmarks.ours", "bulk", *options], check=True, stdout=sys.stderr)


def completed(place: Place) -> int:
    """How many jobs the store itself says are completed."""
    if place.url.startswith("redis"):
        return run(completed_in_redis(place))
    if "://" in place.url:
        import psycopg

        with psycopg.connect(place.url) as server:
            row = server.execute("SELECT count(*) FROM holdfast.job WHERE state = 'completed'").fetchone()
            return int(row[0]) if row else 0
    with closing(sqlite3.connect(place.url)) as connection:
        found = connection.execute("SELECT count(*) FROM holdfast_job WHERE state = 'completed'").fetchone()
    return int(found[0])


async def completed_in_redis(place: Place) -> int:
    app, _ = application(place)
    async with app:
        return sum(queue.counts["completed"] for queue in await app.queues())


def server_memory(place: Place) -> None:
    """Bytes of the server for each waiting job, and for its event."""
    import redis

    with redis.Redis.from_url(place.url) as client:
        before = client.info("memory")["used_memory"]
        fill_elsewhere(replace(place, jobs=EARLY))
        events = client.memory_usage(f"{{holdfast:{QUEUE}}}:events", samples=0)
        waiting = client.info("memory")["used_memory"] - before - events
        client.flushall()
    say(metric="event_bytes", value=events / EARLY)
    say(metric="waiting_bytes", value=waiting / EARLY)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def run(work: Coroutine[Any, Any, T]) -> T:
    with new_runner() as runner:
        return runner.run(work)


def new_runner() -> asyncio.Runner:
    """On uvloop where it is installed, as `holdfast[fast]` does."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=new_event_loop)


if __name__ == "__main__":
    main(globals())
