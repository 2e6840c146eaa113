"""dramatiq on Redis: its own worker in this process, eight threads, as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from benchmarks.script import Stopwatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System

SYSTEMS = (
    System(
        name="dramatiq",
        script=__name__,
        store="redis",
        packages=("dramatiq[redis]", "hiredis"),
        measures=("enqueue", "drain", "latency"),
        note="eight threads, its default; no bulk, no deduplication",
    ),
)


def noop(place: Place, then: Callable[[], object]) -> tuple[Any, Any]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=place.url)
    dramatiq.set_broker(broker)

    @dramatiq.actor(broker=broker)
    def noop(data: str) -> None:
        then()

    return broker, noop


def enqueue(place: Place) -> float:
    _, actor = noop(place, lambda: None)
    with Stopwatch() as watch:
        for _ in range(place.jobs):
            actor.send(PAYLOAD)
    return watch.seconds


def drain(place: Place) -> float:
    import dramatiq

    lock, over, left = threading.Lock(), threading.Event(), place.jobs

    def count() -> None:
        nonlocal left
        with lock:
            left -= 1
        if not left:
            over.set()

    broker, actor = noop(place, count)
    for _ in range(place.jobs):
        actor.send(PAYLOAD)
    worker = dramatiq.Worker(broker, worker_threads=8)
    with Stopwatch() as watch:
        worker.start()
        over.wait()
    worker.stop()
    require(place.jobs - left, place.jobs)
    return watch.seconds


def serve(place: Place) -> None:
    import dramatiq

    broker, _ = noop(place, started)
    dramatiq.Worker(broker, worker_threads=8).start()
    threading.Event().wait()


def send(place: Place) -> Callable[[], object]:
    _, actor = noop(place, lambda: None)
    return lambda: actor.send(PAYLOAD)


if __name__ == "__main__":
    main(globals())
