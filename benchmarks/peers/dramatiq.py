"""dramatiq on Redis: its own worker in this process, eight threads, as it comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.script import CostWatch, main, note_done, require, say, started
from benchmarks.system import PAYLOAD, SLEEP, SLEEPERS, TOIL, Place, System
from benchmarks.trips import trips_in_threads

SYSTEMS = (
    System(
        name="dramatiq",
        script=__name__,
        store="redis",
        packages=("dramatiq[redis]", "hiredis"),
        measures=("enqueue", "drain", "latency", "call", "sleep", "footprint", "recovery"),
        most=(("drain", 20_000),),
        note="eight threads, its default (100 for the sleep); results only for calls; no bulk, no deduplication;"
        " drain of 20,000",
        lacks="no deduplicating ids; no bulk; no asyncio client",
    ),
)


def noop(place: Place, then: Callable[[], object], *, results: bool = False, toiling: bool = False) -> tuple[Any, Any]:
    """A broker and its actor. `started` goes with results, so that one worker serves senders and callers."""
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    broker = RedisBroker(url=place.url)
    broker.add_middleware(Results(backend=RedisBackend(url=place.url), store_results=results))
    dramatiq.set_broker(broker)

    def noop(data: str) -> str:
        then()
        if toiling:
            time.sleep(TOIL)
            note_done(place, data)
        return ""

    return broker, dramatiq.actor(noop, broker=broker)


def enqueue(place: Place) -> CostWatch:
    _, actor = noop(place, lambda: None)
    with CostWatch() as watch:
        for _ in range(place.jobs):
            actor.send(PAYLOAD)
    return watch


def drain(place: Place) -> CostWatch:
    return handled(place, place.jobs, lambda: None, threads=8)


def sleep(place: Place) -> None:
    say(metric="sleep", value=handled(place, SLEEPERS, lambda: time.sleep(SLEEP), threads=100).seconds)


def handled(place: Place, jobs: int, handler: Callable[[], object], threads: int) -> CostWatch:
    """Seconds from the start of the worker to the last of the jobs."""
    import dramatiq

    lock, over, left = threading.Lock(), threading.Event(), jobs

    def count() -> None:
        nonlocal left
        handler()
        with lock:
            left -= 1
        if not left:
            over.set()

    broker, actor = noop(place, count)
    for _ in range(jobs):
        actor.send(PAYLOAD)
    worker = dramatiq.Worker(broker, worker_threads=threads)
    with CostWatch() as watch:
        worker.start()
        over.wait()
    worker.stop()
    require(jobs - left, jobs)
    return watch


def serve(place: Place) -> None:
    import dramatiq

    broker, _ = noop(place, started, results=True)
    dramatiq.Worker(broker, worker_threads=8).start()
    threading.Event().wait()


def call(place: Place) -> None:
    _, actor = noop(place, lambda: None, results=True)
    trips_in_threads(lambda: actor.send(PAYLOAD).get_result(block=True, timeout=30_000))


def load(place: Place) -> None:
    _, actor = noop(place, lambda: None)
    for number in range(place.jobs):
        actor.send(str(number))


def toil(place: Place) -> None:
    import dramatiq

    broker, _ = noop(place, lambda: None, toiling=True)
    dramatiq.Worker(broker, worker_threads=100).start()
    threading.Event().wait()


def send(place: Place) -> Callable[[], object]:
    _, actor = noop(place, lambda: None)
    return lambda: actor.send(PAYLOAD)


if __name__ == "__main__":
    main(globals())
