"""`python -m benchmarks.telemetry --store sqlite|redis|postgres|memory --what logs|traces|off`.

logs: job lines and counts, beside a worker without them. traces: by the share that is sampled; each job is enqueued by
a call of its own, as in a web application (`--bulk`: all by one call, so that they share one context). off: this tree,
as it comes, beside another commit of it (`--against COMMIT`).

Each round measures every variant in a process and a store of its own, back and forth, so that noise falls on all
alike. The verdict goes by the rate, and is `unsure` where the machine was too busy to tell; then the processor time
means more.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.store import STORES
from benchmarks.telemetry.measured import Order
from benchmarks.telemetry.pairs import ROOT, Found, Ratio, by_cpu, by_rate, compare, measure, median
from benchmarks.telemetry.variants import BEFORE, COMPARISONS, Comparison


@contextmanager
def tree_of(commit: str | None) -> Iterator[Path]:
    """The files of a commit, for as long as they are needed; without one, those that are here."""
    if commit is None:
        yield ROOT
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="holdfast-tree-") as folder:
        subprocess.run([*git, "add", "--quiet", "--detach", folder, commit], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def table_of(found: Found, compared: Comparison, name: str) -> Table:
    """Return the figures of one measure."""
    table = Table(name, "jobs/s", "of the first's rate", "CPU µs a job", "by CPU time", "server µs", "target", "")
    first = next(iter(found))
    for variant in found:
        figures = median(found, variant, name)
        target = compared.targets.get(variant)
        table.add_row(
            variant, f"{figures.rate:,.0f}", str(by_rate(found, first, variant, name)), f"{figures.cpu:.1f}",
            str(by_cpu(found, first, variant, name)), f"{figures.server:.1f}" if figures.server else "",
            *(("", "") if target is None else (f"{target}", verdict(by_rate(found, first, variant, name), target))),
        )  # fmt: skip
    return table


def verdict(kept: Ratio, target: float) -> str:
    """Return whether the target is kept; `unsure` where the rounds differ by more than that."""
    return "pass" if kept.low >= target else "fail" if kept.high < target else "unsure"


def missed(found: Found, compared: Comparison) -> list[str]:
    """Return the variants whose drain surely keeps less than their target of the first one's rate."""
    first = next(iter(found))
    wanted = ((name, target) for name, target in compared.targets.items() if name in found)
    return [name for name, target in wanted if verdict(by_rate(found, first, name, "drain"), target) == "fail"]


@click.command(help=__doc__)
@click.option("--store", type=click.Choice([*sorted(STORES), "memory"]), default="sqlite", show_default=True)
@click.option("--what", type=click.Choice(list(COMPARISONS)), default="logs", show_default=True)
@click.option("--only", multiple=True, help="A variant to measure beside the first; may be repeated.")
@click.option("--against", metavar="COMMIT", help="With --what off: the commit that this tree is compared with.")
@click.option("--bulk", is_flag=True, help="With --what traces: enqueue all jobs by one call.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option("--jobs", type=click.IntRange(500), default=20_000, show_default=True)
@click.option("--check", is_flag=True, help="Exit with 1 if a drain surely misses its target.")
def main(
    store: str, what: str, only: tuple[str, ...], against: str | None, bulk: bool, rounds: int, jobs: int, check: bool
) -> None:
    compared = COMPARISONS[what]
    if (what == "off") != (against is not None):
        raise click.UsageError("--against COMMIT goes with --what off, which needs it")
    if unknown := set(only) - set(compared.variants):
        raise click.UsageError(f"--only {unknown.pop()}: one of {', '.join(compared.variants)}")
    names = [name for number, name in enumerate(compared.variants) if not number or not only or name in only]
    order = Order(what, "", "", jobs, bulk)
    with tree_of(against) as other:

        def take(name: str) -> dict:  # type: ignore[type-arg]
            return measure(store, dataclasses.replace(order, variant=name), other if name == BEFORE else ROOT)

        found = compare(names, rounds, take, click.echo)
    console = Console(width=140)
    console.print(f"{store}, {jobs:,} jobs that do nothing, {rounds} rounds; in brackets the middle half of them:")
    for name in compared.measures:
        console.print(table_of(found, compared, name))
    sys.exit(1 if check and missed(found, compared) else 0)


if __name__ == "__main__":
    main()
