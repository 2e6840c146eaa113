"""python -m benchmarks: Holdfast, its peers and the bare store, side by side."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import click
from rich.console import Console

from benchmarks import peers
from benchmarks.compare import process, report, rounds, target
from benchmarks.store import STORES
from benchmarks.system import MEASURES, System

WIDTH = 180
"""Columns of the terminal that the widest table needs."""


@click.command()
@click.option("--store", type=click.Choice(sorted(STORES)), default="sqlite", show_default=True)
@click.option("--peers", "chosen", default="all", show_default=True, help="Names with commas, 'all' or 'none'.")
@click.option("--jobs", type=click.IntRange(1), default=50_000, show_default=True, help="Jobs for each measure.")
@click.option("--peer-jobs", type=click.IntRange(1), default=10_000, show_default=True, help="The same for a peer.")
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
def main(
    store: str,
    chosen: str,
    jobs: int,
    peer_jobs: int,
    count: int,
    only: str,
    patience: float,
    file: Path | None,
    check: bool,
) -> None:
    """Measure Holdfast beside its peers and the bare store, and judge it by its targets."""
    plan = rounds.Plan(_systems(store, chosen), _measures(only), jobs, peer_jobs, count, patience)
    outcome = rounds.run(plan, lambda line: click.echo(line, err=True))
    verdicts = target.judge(store, outcome)
    console = Console()
    console.width = max(console.width, WIDTH)
    report.show(console, plan, outcome, verdicts)
    if file:
        file.write_text(json.dumps(report.as_json(plan, outcome, verdicts), indent=2) + "\n")
    if check and (outcome.failures or any(verdict.kept is False for verdict in verdicts)):
        sys.exit(1)


def _systems(store: str, chosen: str) -> tuple[System, ...]:
    """A peer, ours, the other peers, the floor: our figures are never far from theirs in time."""
    ours, floor = (
        [system for system in import_module(f"benchmarks.{name}").SYSTEMS if system.store == store]
        for name in ("ours", f"floor.{store}")
    )
    first, *others = [*_peers(store, chosen), None]
    return tuple(system for system in (first, *ours, *others, *floor) if system is not None)


def _peers(store: str, chosen: str) -> list[System]:
    known = peers.known(store)
    names = {"all": list(known), "none": []}.get(chosen, chosen.split(","))
    if unknown := sorted(set(names) - set(known)):
        raise click.BadParameter(f"{', '.join(unknown)}: known for {store} are {', '.join(known)}")
    return [system for name in names for system in known[name]]


def _measures(only: str) -> tuple[str, ...]:
    names = only.split(",")
    if unknown := sorted(set(names) - set(MEASURES)):
        raise click.BadParameter(f"{', '.join(unknown)}: the measures are {', '.join(MEASURES)}")
    return tuple(name for name in MEASURES if name in names)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
