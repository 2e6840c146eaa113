"""python -m benchmarks.scale: what more processes bring, and what they cost.

`holdfast worker --processes N` drains the same jobs from one queue, from 1,000 queues, and from one queue with 10,000
keys; and N producers enqueue into one queue, in bulk and one by one. Shown are jobs a second, and the processor time of
the processes and of the server for each job: as long as the latter stays, more cores bring more jobs, up to the one or
many cores that the server uses. A machine with as many cores as processes shows it; on a smaller one the rate cannot
rise, and the processor time tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.scale import fleet
from benchmarks.scale.app import SHAPES
from benchmarks.scale.fleet import Cost
from benchmarks.scale.produce import HOW

JOBS = 20_000
ONE_BY_ONE = 10
"""One by one, so many times fewer jobs are enqueued."""
PROCESSES = "1,2,4"


def measure(
    store: str, counts: list[int], jobs: int, tell: Callable[[str], None], shapes: Sequence[str] = tuple(SHAPES)
) -> dict[str, list[Cost]]:
    """The costs of worker processes by shape, and of producers by how they enqueue."""
    workers, producers = [], []
    for shape in shapes:
        for count in counts:
            tell(f"{store}: {count} worker processes, {shape}")
            workers.append(fleet.work(store, shape, count, jobs // SHAPES[shape].part))
    for how in HOW:
        for count in counts:
            tell(f"{store}: {count} producers, {how}")
            producers.append(fleet.produce(store, how, count, jobs // (1 if how == "bulk" else ONE_BY_ONE)))
    return {"workers": workers, "producers": producers}


def table(title: str, costs: list[Cost]) -> Table:
    """Return the costs, each beside those of one process."""
    heads = (
        "processes",
        "jobs/s",
        "beside one",
        "process, µs a job",
        "server, µs a job",
        "cores busy: processes",
        "server",
    )
    shown = Table("what", *heads, title=title, title_justify="left")
    for cost in costs:
        first = next(each for each in costs if each.what == cost.what)
        shown.add_row(
            cost.what, str(cost.processes), f"{cost.rate:,.0f}", f"{cost.rate / first.rate:.2f} x",
            f"{cost.each_us(cost.own_seconds):.1f}", f"{cost.each_us(cost.server_seconds):.1f}",
            f"{cost.own_seconds / cost.seconds:.2f}", f"{cost.server_seconds / cost.seconds:.2f}",
        )  # fmt: skip
    return shown


def as_json(found: dict[str, list[Cost]]) -> dict[str, Any]:
    """Every figure."""
    return {kind: [asdict(cost) for cost in costs] for kind, costs in found.items()}


@click.command(help=__doc__)
@click.option("--store", type=click.Choice(["postgres", "redis", "sqlite"]), default="redis", show_default=True)
@click.option("--processes", default=PROCESSES, show_default=True, help="Numbers with commas.")
@click.option("--jobs", type=click.IntRange(1_000), default=JOBS, show_default=True)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write every figure here.")
def main(store: str, processes: str, jobs: int, file: Path | None) -> None:
    counts = [int(word) for word in processes.split(",")]
    found = measure(store, counts, jobs, lambda line: click.echo(line, err=True))
    console = Console(width=150)
    console.print(table(f"Worker processes on {store}", found["workers"]))
    console.print(table(f"Producers on {store}", found["producers"]))
    console.print(f"{os.cpu_count()} cores; load at the end {os.getloadavg()[0]:.1f}.", style="dim")
    if file:
        file.write_text(json.dumps(as_json(found), indent=2) + "\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.scale")
