"""litequeue: messages in one SQLite table. It has no worker: pop, work, done is its documented loop."""

from __future__ import annotations

from typing import Any

from benchmarks.script import CostWatch, main, require
from benchmarks.system import PAYLOAD, Place, System

SYSTEMS = (
    System(
        name="litequeue",
        script=__name__,
        store="sqlite",
        packages=("litequeue",),
        measures=("enqueue", "bulk", "drain", "footprint"),
        most=(("drain", 2_000),),
        note="WAL, NORMAL (its own); bulk: put() in one transaction(); no worker, so no latency;"
        " drain of 2,000, because up to 0.9 a pop sorts the whole backlog",
        lacks="no worker, retries, results or schedules: a table of messages with a lock",
    ),
)


def open_queue(place: Place) -> Any:
    from litequeue import LiteQueue

    return LiteQueue(place.url)


def enqueue(place: Place) -> CostWatch:
    queue = open_queue(place)
    with CostWatch() as watch:
        for _ in range(place.jobs):
            queue.put(PAYLOAD)
    return watch


def bulk(place: Place) -> CostWatch:
    queue = open_queue(place)
    with CostWatch() as watch, queue.transaction():
        for _ in range(place.jobs):
            queue.put(PAYLOAD)
    return watch


def drain(place: Place) -> CostWatch:
    bulk(place)
    queue = open_queue(place)
    done = 0
    with CostWatch() as watch:
        while (message := queue.pop()) is not None:
            finish(queue, message)
            done += 1
    require(done, place.jobs)
    return watch


def finish(queue: Any, message: Any) -> None:
    """From 0.13 on, a message is done by the holder of its claim."""
    if hasattr(message, "claim_id"):
        queue.done(message.message_id, claim_id=message.claim_id)
    else:
        queue.done(message.message_id)


if __name__ == "__main__":
    main(globals())
