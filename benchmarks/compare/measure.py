"""One measurement of one system: from a verb to named figures."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.compare.footprint import USED
from benchmarks.compare.process import PATIENCE, Failed, run, talking
from benchmarks.script import quantiles
from benchmarks.store import fresh
from benchmarks.system import Place, System

SAMPLES = 200
WARM_UP = 5
LONGEST_IDLE = 15.0
"""Seconds after which no further sample is taken: a slow system needs no 200 to show that it is slow."""
IDLE_SECONDS = (0.02, 0.06)
"""Long enough that the worker is asleep when the next job comes, and never in step with its timers."""

Figures = dict[str, float]
Answer = tuple[Figures, str | None]


def measure(system: System, name: str, jobs: int, patience: float = PATIENCE) -> Answer:
    """The figures of one measurement, and the version of the system if it told."""
    wanted = system.jobs(name, jobs)
    if name == "wal":
        return wal(system, wanted, patience)
    with fresh(system, wanted) as place:
        if name in _OF_PLACE:
            return _OF_PLACE[name](system, place, patience), None
        if name == "call":
            prepare(system, place, patience)
            with talking(system, "serve", place, silent=True):
                return figures(system, name, place, patience)
        return figures(system, name, place, patience)


def figures(system: System, name: str, place: Place, patience: float) -> Answer:
    lines = run(system, name, place, patience)
    found = {line["metric"]: float(line["value"]) for line in lines if "metric" in line}
    if not found:
        raise Failed(f"{system.name} {name}: it printed no figure")
    return found, next((line["version"] for line in lines if "version" in line), None)


def latency(system: System, place: Place, patience: float) -> Figures:
    """Milliseconds from the call that enqueues to the start of the handler in another process."""
    prepared = prepare(system, place, patience)
    with talking(system, "serve", place) as worker, talking(system, "send", place) as sender:
        if prepared:
            worker.hear("started")
        samples: list[float] = []
        deadline = time.monotonic() + min(patience, LONGEST_IDLE)
        while len(samples) < WARM_UP + SAMPLES and (len(samples) < 2 * WARM_UP or time.monotonic() < deadline):
            time.sleep(random.uniform(*IDLE_SECONDS))
            sender.ask()
            sent = sender.hear("sent")
            samples.append((worker.hear("started") - sent) / 1e6)
    return quantiles("", samples[WARM_UP:])


def prepare(system: System, place: Place, patience: float) -> bool:
    """The schema is there, with one job: a worker and a sender that start together would both make it."""
    needed = system.store == "postgres"
    if needed:
        run(system, "enqueue", replace(place, jobs=1), patience)
    return needed


def footprint(system: System, place: Place, patience: float) -> Figures:
    """Bytes of the store for each waiting job, and for its events where the system names their key in Redis."""
    filling = "bulk" if "bulk" in system.measures else "enqueue"
    run(system, filling, replace(place, jobs=1), patience)  # scripts, groups, schemas and the like are there now
    before, events_before = USED[system.store](system, place)
    run(system, filling, place, patience)
    after, events_after = USED[system.store](system, place)
    return bytes_each(after - before, events_after - events_before, place.jobs)


def bytes_each(grown: int, events: int, jobs: int) -> Figures:
    """What one job takes without its events, and what they take."""
    found = {"waiting_bytes": (grown - events) / jobs}
    return found | {"event_bytes": events / jobs} if events else found


def wal(system: System, jobs: int, patience: float) -> Answer:
    """Bytes of write-ahead log for the life of one job: many lives less one, so that the schema does not count."""
    grown = {}
    for count in (1, jobs):
        with fresh(system, count) as place:
            before = _written(place)
            run(system, "drain", place, patience)
            grown[count] = _written(place) - before
    return {"wal_bytes": (grown[jobs] - grown[1]) / max(1, jobs - 1)}, None


def _written(place: Place) -> float:
    import psycopg

    with psycopg.connect(place.url) as server:
        row = server.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    assert row is not None
    return float(row[0])


_OF_PLACE: dict[str, Callable[[System, Place, float], Figures]] = {"latency": latency, "footprint": footprint}
