"""python -m benchmarks.web: what a server and the browsers that look at it cost.

    python -m benchmarks.web [--store sqlite|redis|postgres] [--streams 200] [--jobs 50000] [--rounds 3]

Drains the same number of jobs with no server, with one, and with so many open streams: of pages, of pulses and of every
event. The server and the browsers have processes of their own, of which the processor time is told; where the machine
has few cores, the browsers, which are elsewhere in life, compete with the worker here. What a page takes and what it
costs to keep it up to date, `benchmarks.pages` tells.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from benchmarks import store as places
from benchmarks.app import QUEUE, SLOTS, address, application, fill_elsewhere, run
from benchmarks.script import Stopwatch, require
from benchmarks.system import Place
from benchmarks.web_server import browsers, caught_up, processor_seconds, server

NONE, ALONE = "no server", "server"
STREAMS = {
    "pages": "/live-updates",
    "pulses": "/api/v1/events/stream?events=false&pulse=true",
    "events": "/api/v1/events/stream",
}


class Figures(NamedTuple):
    """What a drain has taken."""

    rate: float
    worker_us: float
    """Microseconds of the worker's processor time for each job, and of the others'."""
    server_us: float = 0.0
    browsers_us: float = 0.0


async def drain(place: Place) -> tuple[float, float]:
    """Return jobs a second and the seconds of this process for all."""
    app, _ = application(place)
    async with app:
        worker = app.worker(queues=[QUEUE], slots=SLOTS, log_jobs=False)
        spent = time.process_time()
        with Stopwatch() as watch:
            await worker.run(burst=True)
        spent = time.process_time() - spent
        counts = next(info.counts for info in await app.queues() if info.name == QUEUE)
    require(place.jobs - counts["waiting"] - counts["active"], place.jobs)
    return place.jobs / watch.seconds, spent


@contextmanager
def watched(place: Place, variant: str, streams: int) -> Iterator[list[int]]:
    """The server and browsers of a variant run; yield the ids of their processes."""
    if variant == NONE:
        yield []
        return
    with server(address(place)) as (where, pid):
        caught_up(where)
        path = STREAMS.get(variant)
        with browsers(where, path, streams) if path else nullcontext(None) as other:
            yield [pid] if other is None else [pid, other]


def measure(store: str, variant: str, jobs: int, streams: int) -> Figures:
    """Return the figures of one drain, on a fresh store."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, places.STORES[store](Path(folder)) as url:
        place = Place(url, Path(folder), jobs)
        fill_elsewhere(place)
        words = [f"--one={url}", f"--folder={folder}", f"--jobs={jobs}"]
        with watched(place, variant, streams) as others:
            before = [processor_seconds(pid) for pid in others]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.web", *words], stdout=subprocess.PIPE, check=True, text=True
            )
            spent = [processor_seconds(pid) - was for pid, was in zip(others, before, strict=True)]
    rate, worker = json.loads(done.stdout.splitlines()[-1])
    return Figures(rate, *(seconds / jobs * 1e6 for seconds in (worker, *spent)))


def compare(store: str, jobs: int, streams: int, rounds: int) -> None:
    """Print what a drain loses, by variant."""
    names = [NONE, ALONE, *STREAMS]
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(measure(store, name, jobs, streams))
        print(f"round {number + 1}:", ", ".join(f"{name} {each[-1].rate:,.0f}/s" for name, each in found.items()))
    print(f"\n{store}: a drain of {jobs:,} jobs, {streams} streams, {rounds} rounds; processor time for each job")
    for name, each in found.items():
        ratio = statistics.median(one.rate / off.rate for one, off in zip(each, found[NONE], strict=True))
        middle = Figures(*(statistics.median(values) for values in zip(*each, strict=True)))
        print(
            f"  {name:12} {middle.rate:>9,.0f}/s {ratio:6.2f}   worker {middle.worker_us:6.1f} us"
            f"   server {middle.server_us:6.1f} us   browsers {middle.browsers_us:6.1f} us"
        )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=sorted(places.STORES), default="sqlite")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    for hidden in ("--one", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS, default="")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(drain(Place(given.one, Path(given.folder), given.jobs)))))
        return
    compare(given.store, given.jobs, given.streams, given.rounds)


if __name__ == "__main__":
    main()
