"""RQ on Redis: its SimpleWorker, which runs one job at a time in its own process instead of forking for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.script import CostWatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System
from benchmarks.trips import trips_in_threads

CHUNK = 1_000

SYSTEMS = (
    System(
        name="rq",
        script=__name__,
        store="redis",
        packages=("rq", "redis", "hiredis"),
        measures=("enqueue", "bulk", "drain", "latency", "call", "footprint"),
        most=(("drain", 2_000), ("enqueue", 2_000)),
        note=f"SimpleWorker (no fork for each job), one job at a time; bulk in chunks of {CHUNK:,}",
        lacks="one job at a time for each process; no limits over all workers",
    ),
)


def noop(data: str) -> None:
    """What the worker imports by name and runs."""


def tell(data: str) -> None:
    started()


def queue(place: Place) -> Any:
    from redis import Redis
    from rq import Queue

    return Queue("bench", connection=Redis.from_url(place.url))


def name(handler: Callable[[str], None]) -> str:
    return f"benchmarks.peers.rq.{handler.__name__}"


def enqueue(place: Place) -> CostWatch:
    made = queue(place)
    with CostWatch() as watch:
        for _ in range(place.jobs):
            made.enqueue(name(noop), PAYLOAD)
    return watch


def bulk(place: Place) -> CostWatch:
    from rq import Queue

    made = queue(place)
    with CostWatch() as watch:
        for first in range(0, place.jobs, CHUNK):
            count = min(CHUNK, place.jobs - first)
            made.enqueue_many([Queue.prepare_data(name(noop), (PAYLOAD,)) for _ in range(count)])
    return watch


def drain(place: Place) -> CostWatch:
    bulk(place)
    made = queue(place)
    with CostWatch() as watch:
        work(made, burst=True)
    require(made.finished_job_registry.count, place.jobs)
    return watch


def work(made: Any, *, burst: bool) -> None:
    from rq import SimpleWorker

    SimpleWorker([made], connection=made.connection).work(burst=burst, logging_level="ERROR")


def serve(place: Place) -> None:
    work(queue(place), burst=False)


def call(place: Place) -> None:
    made = queue(place)
    trips_in_threads(lambda: made.enqueue(name(noop), PAYLOAD).latest_result(timeout=30))


def send(place: Place) -> Callable[[], object]:
    made = queue(place)
    return lambda: made.enqueue(name(tell), PAYLOAD)


if __name__ == "__main__":
    main(globals())
