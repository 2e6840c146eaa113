"""huey on SQLite: its own consumer with one worker thread, the best of its settings for SQLite."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from benchmarks.script import CostWatch, main, require, started
from benchmarks.system import PAYLOAD, Place, System

_MEASURES = ("enqueue", "drain", "latency", "footprint")

SYSTEMS = (
    System(
        name="huey",
        script=__name__,
        store="sqlite",
        packages=("huey",),
        measures=_MEASURES,
        most=(("drain", 20_000),),
        beside="holdfast at FULL",
        note="WAL; synchronous FULL, its default (its options: FULL or OFF); no bulk; polls, 100 ms at first;"
        " drain of 20,000",
        lacks="a killed worker's job is lost; no deduplicating ids; no bulk",
    ),
    System(
        name="huey at NORMAL",
        script=__name__,
        store="sqlite",
        packages=("huey",),
        measures=_MEASURES,
        most=(("drain", 20_000),),
        variant="normal",
        note="the same durability as ours, which no option of huey gives: a connection factory does; drain of 20,000",
        lacks="a killed worker's job is lost; no deduplicating ids; no bulk",
    ),
)


class NormalConnection(sqlite3.Connection):
    """A connection at synchronous=NORMAL."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.execute("pragma synchronous=normal")


def open_queue(place: Place) -> Any:
    from huey import SqliteHuey

    options = {"factory": NormalConnection} if place.variant == "normal" else {}
    return SqliteHuey("bench", filename=place.url, **options)


def noop(queue: Any, then: Callable[[], None]) -> Any:
    def noop(data: str) -> None:
        then()

    return queue.task(name="noop")(noop)


def enqueue(place: Place) -> CostWatch:
    task = noop(open_queue(place), lambda: None)
    with CostWatch() as watch:
        for _ in range(place.jobs):
            task(PAYLOAD)
    return watch


def drain(place: Place) -> CostWatch:
    enqueue(place)
    queue, count = open_queue(place), Countdown(place.jobs)
    noop(queue, count.one)
    consumer = queue.create_consumer(workers=1, periodic=False)
    with CostWatch() as watch:
        consumer.start()
        count.over.wait()
    consumer.stop(graceful=True)
    require(place.jobs - queue.pending_count(), place.jobs)
    return watch


def serve(place: Place) -> None:
    queue = open_queue(place)
    noop(queue, started)
    queue.create_consumer(workers=1, periodic=False).run()


def send(place: Place) -> Callable[[], object]:
    task = noop(open_queue(place), lambda: None)
    return lambda: task(PAYLOAD)


class Countdown:
    """`over` is set by the last job. One worker thread counts, so there is nothing to lock."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.over = threading.Event()

    def one(self) -> None:
        self.left -= 1
        if not self.left:
            self.over.set()


if __name__ == "__main__":
    main(globals())
