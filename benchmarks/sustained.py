"""python -m benchmarks.sustained: a store under full load for a while, with everything that it has to clear away.

A producer and a worker run for `--seconds`, each in a process of its own; the producer waits while a backlog is there.
Results are kept for two seconds and 20,000 events, so that what is expired and trimmed is as much as what comes, as it
is after the retention of any queue. Shown, slice by slice: jobs a second, the processor time of producer and worker
together and of the server for each job, and the room that the store takes.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import store as places
from benchmarks.app import QUEUE, SLOTS, run
from benchmarks.compare.footprint import USED
from benchmarks.processor import of_session, of_tree
from benchmarks.scale.app import Count, counted
from benchmarks.system import PAYLOAD, Place, System

SECONDS = 600.0
SLICES = 10
PRODUCERS = 1
BACKLOG = 10_000
KEPT_SECONDS = 2
HISTORY = 20_000
LOOK = 0.05
KEPT = 0.8
"""The least that the last half may be of the first full slice."""


@dataclass(frozen=True)
class Slice:
    """What happened in a part of the time."""

    rate: float
    own_us: float
    server_us: float
    store_mb: float


def application(url: str) -> tuple[Any, Any, Any]:
    """The app, its task, and a list for the count of its process."""
    from holdfast import Holdfast

    app = Holdfast(f"{url}?history={HISTORY}")
    app.queue(QUEUE, result_ttl=KEPT_SECONDS)
    count: list[Count] = []

    @app.task(queue=QUEUE)
    async def noop(data: str) -> None:
        count[0].one()

    return app, noop, count


def sum_of(counts: str, name: str) -> int:
    """What all processes have counted under a name."""
    return counted(Path(counts) / name)


async def produce(url: str, counts: str) -> None:
    """Enqueue by the thousand, for as long as this process runs; wait where enough is waiting."""
    app, noop, _ = application(url)
    async with app:
        sent = Count(Path(counts) / "sent")
        while True:
            await noop.enqueue_many(noop.args(PAYLOAD) for _ in range(1_000))
            sent.add(1_000)
            while sum_of(counts, "sent") - sum_of(counts, "done") > BACKLOG:  # noqa: ASYNC110, it is others' work
                await asyncio.sleep(LOOK)


async def work(url: str, counts: str) -> None:
    """A worker, until it is told to stop."""
    app, _, count = application(url)
    count.append(Count(Path(counts) / "done"))
    async with app:
        await app.worker(queues=[QUEUE], slots=SLOTS).run()


@contextmanager
def _processes(url: str, counts: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield the worker and the producers; all of them are gone afterwards."""
    base = [sys.executable, "-m", "benchmarks.sustained", "--part", url, str(counts)]
    started = [subprocess.Popen([*base, verb], start_new_session=True) for verb in ["work", *["produce"] * PRODUCERS]]
    try:
        yield started
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


def measure(store: str, seconds: float, tell: Callable[[str], None] = lambda line: None) -> list[Slice]:
    """Return what happened, slice by slice."""
    system, slices = System(name="holdfast", script="", store=store, measures=()), list[Slice]()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        tempfile.TemporaryDirectory(prefix="holdfast-bench-counts-") as counts,
        places.STORES[store](Path(folder)) as url,
    ):
        for name in ("sent", "done"):
            (Path(counts) / name).mkdir()
        address = url if "://" in url else f"sqlite:///{url}"
        run(_made(address))
        place, done = Place(url, Path(folder), 0, server=places.PIDS.get(url, 0)), Path(counts) / "done"
        with _processes(address, Path(counts)) as started:
            while counted(done) < BACKLOG:  # all are at work
                time.sleep(LOOK)
            for number in range(SLICES):
                slices.append(_slice(started, system, place, done, seconds / SLICES))
                tell(f"{store}, {number + 1} of {SLICES}: {slices[-1].rate:,.0f} jobs/s, {slices[-1].store_mb:,.1f} MB")
    return slices


async def _made(address: str) -> None:
    app, _, _ = application(address)
    async with app:
        await app.queues()


def _slice(started: list[Any], system: System, place: Place, done: Path, seconds: float) -> Slice:
    def spent() -> tuple[int, float, float]:
        return counted(done), sum(of_session(each.pid) for each in started), of_tree(place.server)

    before, began = spent(), time.perf_counter()
    time.sleep(seconds)
    jobs, own, server = (after - start for after, start in zip(spent(), before, strict=True))
    took = time.perf_counter() - began
    if any(each.poll() is not None for each in started) or not jobs:
        raise SystemExit("a process of the measurement ended or stood still; its last words are above")
    used, _ = USED[system.store](system, place)
    return Slice(jobs / took, own / jobs * 1e6, server / jobs * 1e6, used / 1e6)


def share_kept(slices: list[Slice]) -> float:
    """The mean of the last half beside the first slice: below 1, the store has become slower."""
    half = slices[len(slices) // 2 :]
    return sum(each.rate for each in half) / len(half) / slices[0].rate


def table(store: str, slices: list[Slice]) -> Table:
    """Return the slices."""
    heads = ("jobs/s", "processes, µs a job", "server, µs a job", "store, MB")
    shown = Table("slice", *heads, title=f"Sustained on {store}", title_justify="left")
    for number, each in enumerate(slices, 1):
        shown.add_row(
            str(number), f"{each.rate:,.0f}", f"{each.own_us:.1f}", f"{each.server_us:.1f}", f"{each.store_mb:,.1f}"
        )
    return shown


@click.command(help=__doc__)
@click.option("--store", type=click.Choice(sorted(places.STORES)), default="postgres", show_default=True)
@click.option("--seconds", type=click.FloatRange(1), default=SECONDS, show_default=True)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write every figure here.")
@click.option("--part", nargs=3, hidden=True, help="One process of a measurement.")
def main(store: str, seconds: float, file: Path | None, part: tuple[str, str, str] | None) -> None:
    if part:
        url, counts, verb = part
        run({"work": work, "produce": produce}[verb](url, counts))
        return
    slices = measure(store, seconds, lambda line: click.echo(line, err=True))
    console = Console()
    console.print(table(store, slices))
    kept = share_kept(slices)
    word = "pass" if kept >= KEPT else "fail"
    console.print(f"the last half >= {KEPT} x of the first slice: {kept:.2f} x, {word}")
    if file:
        file.write_text(json.dumps([asdict(each) for each in slices], indent=2) + "\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.sustained")
