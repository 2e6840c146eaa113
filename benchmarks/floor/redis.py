"""The floor of Redis: bare pipelined commands that write what a queue must write, with nothing on top."""

from __future__ import annotations

import itertools
import os
from typing import Any

from benchmarks.script import CostWatch, main, require
from benchmarks.system import PAYLOAD, Place, System

SYSTEMS = (
    System(
        name="floor",
        script=__name__,
        store="redis",
        measures=("enqueue", "bulk", "drain", "footprint"),
        log="events",
        note="bare pipelined commands doing the same writes, unfenced: record, id, place and event of each job",
    ),
)
CHUNK = 1_000
TURN = 100
RECORD = os.urandom(40) + PAYLOAD.encode()
EVENT = os.urandom(60)


def connect(place: Place) -> Any:
    import redis

    return redis.Redis.from_url(place.url)


def write(pipe: Any, number: int) -> None:
    """A record, its id, its place and its event."""
    run = number.to_bytes(6, "big")
    pipe.hset("jobs", run, RECORD)
    pipe.hset("ids", f"{number:032x}", run)
    pipe.zadd("waiting", {run: 0})
    pipe.xadd("events", {"e": EVENT})


def enqueue(place: Place) -> CostWatch:
    return insert(place, 1)


def bulk(place: Place) -> CostWatch:
    return insert(place, CHUNK)


def insert(place: Place, chunk: int) -> CostWatch:
    with connect(place) as client, CostWatch() as watch:
        for first in range(0, place.jobs, chunk):
            pipe = client.pipeline(transaction=False)
            for number in range(first, min(first + chunk, place.jobs)):
                write(pipe, number)
            pipe.execute()
    return watch


def drain(place: Place) -> CostWatch:
    insert(place, CHUNK)
    done = 0
    with connect(place) as client, CostWatch() as watch:
        held: list[bytes] = []
        for _ in itertools.count():
            pipe = client.pipeline(transaction=False)
            for run in held:
                pipe.hset("jobs", run, RECORD)
                pipe.hdel("active", run)
                pipe.zadd("completed", {run: 0})
                pipe.xadd("events", {"e": EVENT})
            pipe.zpopmin("waiting", TURN)
            done += len(held)
            held = [run for run, _ in pipe.execute()[-1]]
            if not held:
                break
            pipe = client.pipeline(transaction=False)
            pipe.hmget("jobs", held)
            for run in held:
                pipe.hset("jobs", run, RECORD)
                pipe.hset("active", run, b"session")
                pipe.xadd("events", {"e": EVENT})
            pipe.execute()
    require(done, place.jobs)
    return watch


if __name__ == "__main__":
    main(globals())
