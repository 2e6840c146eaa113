"""python -m benchmarks.recovery: what is lost, doubled and waited for when a worker is killed with -9.

A worker with 100 slots (dramatiq: 100 threads) runs jobs of 0.2 s, each of which appends its number to a file as its
last act. After a quarter of them it is killed, and another is started at once, as a supervisor does. Every system is as
it comes: nobody's lease, lock or visibility time-out is shortened. Shown are the jobs that never ran to their end
within `--patience` seconds after the kill (lost, or still held by the dead worker), those that did so twice (doubled),
and the seconds from the kill to the end of the last one. Systems mostly wait here, so several are measured at a time.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import ours, peers
from benchmarks.compare.environment import NotInstallable
from benchmarks.compare.measure import prepare
from benchmarks.compare.process import Failed, run, talking
from benchmarks.store import STORES, fresh
from benchmarks.system import DONE, Place, System

JOBS = 1_000
PATIENCE = 100.0
AT_ONCE = 10
LOOK = 0.02


@dataclass(frozen=True)
class Recovery:
    """What became of the jobs of one system."""

    system: str
    store: str
    jobs: int
    lost: int = 0
    doubled: int = 0
    seconds: float | None = None
    """From the kill to the end of the last job; None where some never came."""
    failure: str = ""


def tally(lines: Sequence[str], jobs: int) -> tuple[int, int]:
    """How many of the jobs never ended, and how many did so more than once; a line may be cut short by the kill."""
    counts = Counter(line for line in lines if line.isdigit() and int(line) < jobs)
    return jobs - len(counts), sum(count > 1 for count in counts.values())


def recover(system: System, jobs: int, patience: float) -> Recovery:
    """Return what one system did."""
    with fresh(system, jobs) as place:
        try:
            return _recover(system, place, patience)
        except (Failed, NotInstallable) as error:
            return Recovery(system.name, system.store, jobs, failure=str(error))


def _recover(system: System, place: Place, patience: float) -> Recovery:
    prepare(system, place, patience)  # the job that it enqueues carries no number, and is not counted
    run(system, "load", place, patience)
    with talking(system, "toil", place) as first:
        _until(lambda: _lost(place) <= place.jobs * 3 // 4, patience)
        first.kill()
    killed = time.monotonic()
    with talking(system, "toil", place):
        _until(lambda: _lost(place) == 0, patience)
        seconds = time.monotonic() - killed
    lost, doubled = tally(_lines(place), place.jobs)
    return Recovery(system.name, system.store, place.jobs, lost, doubled, None if lost else seconds)


def _until(reached: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not reached() and time.monotonic() < deadline:
        time.sleep(LOOK)


def _lost(place: Place) -> int:
    return tally(_lines(place), place.jobs)[0]


def _lines(place: Place) -> list[str]:
    file = place.folder / DONE
    return file.read_text().splitlines() if file.exists() else []


def survivors(store: str, chosen: str = "all") -> list[System]:
    """Ours, and the peers that say that they survive, by name."""
    named = None if chosen == "all" else set(chosen.split(","))
    theirs = [each for rows in peers.known(store).values() for each in rows if named is None or each.name in named]
    mine = [each for each in ours.SYSTEMS if each.store == store]
    return [each for each in (*mine, *theirs) if "recovery" in each.measures]


def measure(
    systems: Sequence[System], jobs: int, patience: float, tell: Callable[[str], None] = lambda line: None
) -> list[Recovery]:
    """What became of the jobs of each system, several of which are measured at a time."""

    def one(system: System) -> Recovery:
        tell(f"recovery, {system.name} on {system.store}")
        return recover(system, jobs, patience)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, systems))


def table(found: Sequence[Recovery], patience: float) -> Table:
    """Return the figures, or why there are none."""
    shown = Table("system", "store", "jobs", f"not done within {patience:g} s", "doubled", "seconds to the last")
    for each in found:
        seconds = "-" if each.seconds is None else f"{each.seconds:.1f}"
        words = ("failed", each.failure, "") if each.failure else (str(each.lost), str(each.doubled), seconds)
        shown.add_row(each.system, each.store, f"{each.jobs:,}", *words)
    return shown


@click.command(help=__doc__)
@click.option("--store", type=click.Choice(["all", *sorted(STORES)]), default="all", show_default=True)
@click.option("--peers", "chosen", default="all", show_default=True, help="Names with commas, 'all' or 'none'.")
@click.option("--jobs", type=click.IntRange(4), default=JOBS, show_default=True)
@click.option("--patience", type=float, default=PATIENCE, show_default=True, help="Seconds after the kill.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write every figure here.")
def main(store: str, chosen: str, jobs: int, patience: float, file: Path | None) -> None:
    stores = sorted(STORES) if store == "all" else [store]
    systems = [each for name in stores for each in survivors(name, chosen)]
    found = measure(systems, jobs, patience, lambda line: click.echo(line, err=True))
    Console().print(table(found, patience))
    if file:
        file.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.recovery")
