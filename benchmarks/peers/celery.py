"""Celery on Redis: its worker in this process, a pool of threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.script import CostWatch, main, require, say, started
from benchmarks.system import PAYLOAD, SLEEP, SLEEPERS, Place, System
from benchmarks.trips import trips_in_threads

SYSTEMS = (
    System(
        name="celery",
        script=__name__,
        store="redis",
        packages=("celery[redis]", "hiredis"),
        measures=("enqueue", "drain", "latency", "call", "sleep", "footprint"),
        most=(("drain", 3_000), ("enqueue", 3_000)),
        note="pool of 100 threads, no gossip, mingle or heartbeat; results only for calls; no bulk",
        lacks="no deduplicating ids; no limits over all workers; a killed worker's job is lost, unless `acks_late`",
    ),
)


def noop(place: Place, then: Callable[[], object] = lambda: None) -> tuple[Any, Any]:
    from celery import Celery

    app = Celery("bench", broker=place.url, backend=place.url)
    app.conf.worker_hijack_root_logger = False
    app.conf.worker_redirect_stdouts = False

    def noop(data: str) -> None:
        then()

    return app, app.task(noop, name="noop")


def send_one(task: Any) -> None:
    task.apply_async((PAYLOAD,), ignore_result=True)


def enqueue(place: Place) -> CostWatch:
    _, task = noop(place)
    with CostWatch() as watch:
        for _ in range(place.jobs):
            send_one(task)
    return watch


def drain(place: Place) -> CostWatch:
    return handled(place, place.jobs, lambda: None)


def sleep(place: Place) -> None:
    say(metric="sleep", value=handled(place, SLEEPERS, lambda: time.sleep(SLEEP)).seconds)


def handled(place: Place, jobs: int, handler: Callable[[], object]) -> CostWatch:
    """Seconds from the start of the worker to the last of the jobs."""
    lock, over, done = threading.Lock(), threading.Event(), 0

    def count() -> None:
        nonlocal done
        handler()
        with lock:
            done += 1
        if done == jobs:
            over.set()

    app, task = noop(place, count)
    for _ in range(jobs):
        send_one(task)
    with CostWatch() as watch:
        threading.Thread(target=app.Worker(**options()).start, daemon=True).start()
        over.wait()
    require(done, jobs)
    return watch


def options() -> dict[str, Any]:
    return {
        "pool": "threads",
        "concurrency": 100,
        "loglevel": "ERROR",
        "without_gossip": True,
        "without_mingle": True,
        "without_heartbeat": True,
    }


def serve(place: Place) -> None:
    app, _ = noop(place, started)
    app.Worker(**options()).start()


def call(place: Place) -> None:
    _, task = noop(place)
    trips_in_threads(lambda: task.delay(PAYLOAD).get(timeout=30))


def send(place: Place) -> Callable[[], object]:
    _, task = noop(place)
    return lambda: send_one(task)


if __name__ == "__main__":
    main(globals())
    os._exit(0)
