"""python -m benchmarks: Holdfast, its peers and the bare store, side by side; with --page, the page of the docs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.compare import process, report, rounds, target
from benchmarks.compare.systems import UnknownPeer, systems
from benchmarks.page.plan import FULL, PARTS, QUICK, PagePlan
from benchmarks.store import STORES
from benchmarks.system import MEASURES

JOBS, PEER_JOBS = 50_000, 10_000
WIDTH = 180
"""Columns of the terminal that the widest table needs."""


@click.command()
@click.option(
    "--store",
    type=click.Choice(sorted(STORES)),
    help="The store to measure on. Default: sqlite; with --page, all of them.",
)
@click.option("--peers", "chosen", default="all", show_default=True, help="Names with commas, 'all' or 'none'.")
@click.option("--jobs", type=click.IntRange(1), help="Jobs for each measure; 50,000 as a rule.")
@click.option("--peer-jobs", type=click.IntRange(1), help="The same for a peer; 10,000 as a rule.")
@click.option("--rounds", "count", type=click.IntRange(1), default=3, show_default=True)
@click.option("--only", default=",".join(MEASURES), show_default=True, help="Measures with commas.")
@click.option(
    "--patience",
    type=float,
    default=process.PATIENCE,
    show_default=True,
    help="Seconds until a measurement is given up.",
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write every figure of every round here.")
@click.option("--check", is_flag=True, help="Exit with 1 if a target was missed or a measurement failed.")
@click.option(
    "--page", is_flag=True, help="Measure all that docs/benchmarks.md shows, in sizes of its own, and write it."
)
@click.option("--quick", is_flag=True, help="With --page: smaller sizes and the main peers, in some minutes.")
@click.option(
    "--backlog", type=click.IntRange(1_000), help="With --page: the most jobs that wait; 10000000 takes long."
)
@click.option("--sustained", type=click.FloatRange(10), help="With --page: seconds of sustained load on each store.")
@click.option("--part", "parts", help="With --page: measure these parts alone, with commas, and keep the others.")
@click.option("--install", is_flag=True, help="With --page: install what the peers need, and measure nothing.")
@click.option(
    "--clone",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="With --page: a clone of the third-party harness, which is run there.",
)
@click.option("--again", is_flag=True, help="With --page: measure nothing, and draw the figures of the last run again.")
def main(
    page: bool,
    quick: bool,
    again: bool,
    backlog: int | None,
    sustained: float | None,
    clone: str | None,
    parts: str | None,
    install: bool,
    **options: Any,
) -> None:
    """Measure Holdfast beside its peers and the bare store, and judge it by its targets."""
    if page or again:
        sizes = {"backlog": backlog, "sustained": sustained, "stores": options["store"] and (options["store"],)}
        sizes |= {"clone": clone, **{name: options[name] for name in ("jobs", "peer_jobs")}}
        sizes |= {"parts": _parts(parts, clone)}
        plan = replace(QUICK if quick else FULL, **{name: size for name, size in sizes.items() if size})
        _write_page(plan, again, install)
        return
    _compare(**{**options, "store": options["store"] or "sqlite"})


def _parts(chosen: str | None, clone: str | None) -> tuple[str, ...]:
    """The parts that are measured; the harness only where there is a clone of it."""
    names = tuple(chosen.split(",")) if chosen else tuple(name for name in PARTS if name != "harness" or clone)
    if unknown := sorted(set(names) - set(PARTS)):
        raise click.BadParameter(f"{', '.join(unknown)}: the parts are {', '.join(PARTS)}")
    return names


def _write_page(plan: PagePlan, again: bool, install: bool) -> None:
    from benchmarks.page import figures, write

    if install:
        figures.install(plan, _tell)
        return
    write.write(write.read() if again else figures.take(plan, _tell, write.read()))
    click.echo(f"written: {write.DOCS / 'benchmarks.md'}")


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _compare(
    store: str,
    chosen: str,
    jobs: int | None,
    peer_jobs: int | None,
    count: int,
    only: str,
    patience: float,
    file: Path | None,
    check: bool,
) -> None:
    try:
        sizes = jobs or JOBS, peer_jobs or PEER_JOBS
        plan = rounds.Plan(systems(store, chosen), _measures(only), *sizes, count, patience)
    except UnknownPeer as error:
        raise click.BadParameter(str(error)) from error
    outcome = rounds.run(plan, _tell)
    verdicts = target.judge(store, outcome)
    console = Console()
    console.width = max(console.width, WIDTH)
    report.show(console, plan, outcome, verdicts)
    if file:
        file.write_text(json.dumps(report.as_json(plan, outcome, verdicts), indent=2) + "\n")
    if check and (outcome.failures or any(verdict.kept is False for verdict in verdicts)):
        sys.exit(1)


def _measures(only: str) -> tuple[str, ...]:
    names = only.split(",")
    if unknown := sorted(set(names) - set(MEASURES)):
        raise click.BadParameter(f"{', '.join(unknown)}: the measures are {', '.join(MEASURES)}")
    return tuple(name for name in MEASURES if name in names)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
