"""python -m benchmarks.imports: what an import and a start of the command cost, beside other queues.

Processor time (user and system) of a whole fresh process, so that other work on the machine matters little, and beside
it the time on the wall, for a quiet machine; medians. A worker is ready when it says that it serves its queues.
Each peer is in an environment of its own, its files compiled before.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import peers, store
from benchmarks.compare import environment

STATEMENTS = {
    "arq": "from arq import create_pool",
    "celery": "from celery import Celery",
    "dramatiq": "import dramatiq",
    "huey": "from huey import SqliteHuey",
    "procrastinate": "from procrastinate import App",
    "rq": "from rq import Queue",
    "saq": "from saq import Queue",
    "taskiq": "from taskiq import InMemoryBroker",
}
OURS = "from holdfast import Holdfast"
WORKER = ("worker", "probe:app", "--log-level", "error", "--json")
COMMANDS = (("--version",), ("jobs", "--app", "probe:app"), (*WORKER, "--burst"))
PROBE = """
from holdfast import Holdfast

app = Holdfast({url!r})

@app.task()
async def nothing() -> None: ...
"""
READY = "holdfast worker, until it is ready"
MOST_MS = {OURS: 150, "holdfast jobs": 300, READY: 400}
"""What we allow ourselves, in milliseconds, of processor time and on the wall."""


@dataclass(frozen=True)
class Cost:
    """What a process took, in milliseconds."""

    processor_ms: float
    wall_ms: float

    @classmethod
    def median(cls, found: Sequence[Cost]) -> Cost:
        """Return the medians, each by itself."""
        return cls(
            statistics.median(each.processor_ms for each in found), statistics.median(each.wall_ms for each in found)
        )


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    cost: Cost
    modules: int | None = None

    @property
    def target(self) -> str:
        """What is allowed, and whether it was kept, by the processor and on the wall."""
        most = MOST_MS.get(self.what)
        kept = ["kept" if each < (most or 0) else "MISSED" for each in (self.cost.processor_ms, self.cost.wall_ms)]
        return "" if most is None else f"< {most}: {kept[0]}, wall {kept[1]}"


def whole(command: Sequence[str], folder: Path) -> Cost:
    """Return what a command costs from its start to its end."""
    before, began = _children_ms(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=_environment())
    return Cost(_children_ms() - before, 1000 * (time.perf_counter() - began))


def ready(command: Sequence[str], folder: Path) -> Cost:
    """Return what a worker costs from its start to the line that says that it serves its queues."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, env=_environment()) as process:
        assert process.stdout is not None
        assert b"started" in process.stdout.readline()
        wall_ms, processor_ms = 1000 * (time.perf_counter() - began), _process_ms(process.pid)
        process.terminate()
    return Cost(processor_ms, wall_ms)


def measured(
    command: Sequence[str], rounds: int, folder: Path = environment.ROOT, measure: Callable[..., Cost] = whole
) -> Cost:
    """Return the medians of a command, after a first run that compiles."""
    return Cost.median([measure(command, folder) for _ in range(rounds + 1)][1:])


def _children_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)


def _process_ms(pid: int) -> float:
    """Return the processor time that a process has used so far, by the clock of the kernel."""
    return 1000 * time.clock_gettime(_clock_of(pid))


def _clock_of(pid: int) -> int:
    """Return the kernel's clock of the processor time of another process (`clock_getcpuclockid`)."""
    return (~pid << 3) | 2


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def imported(what: str, python: str, statement: str, rounds: int) -> Row:
    """Return what a statement costs, and how many modules it loads."""
    code = f"import sys; {statement}; print(len(sys.modules))"
    counted = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=environment.ROOT)
    return Row(what, measured([python, "-c", statement], rounds), int(counted.stdout))


def started(folder: Path, words: Sequence[str], rounds: int) -> Row:
    """Return what a command of ours costs on an empty store: a worker starts, finds nothing, and ends."""
    told = f"holdfast {words[0]}" + (", until it has found nothing and ended" if words[0] == "worker" else "")
    return Row(told, measured([sys.executable, "-m", "holdfast", *words], rounds, folder))


def of_peers(rounds: int) -> list[Row]:
    """Return the rows of those peers that can be installed here."""
    rows = []
    for name, statement in STATEMENTS.items():
        system = next(each for each in peers.systems(peers.FOLDER / f"{name}.py") if each.packages)
        try:
            python, *_ = environment.command(system)
        except environment.NotInstallable as error:
            click.echo(str(error), err=True)
            continue
        rows.append(imported(f"{name}: {statement}", python, statement, rounds))
    return sorted(rows, key=lambda row: row.cost.processor_ms)


def ours(store_name: str, rounds: int) -> list[Row]:
    """Return the rows of our own commands, on an empty store of this kind."""
    with tempfile.TemporaryDirectory() as made, store.STORES[store_name](Path(made)) as place:
        folder = Path(made)
        url = place if "://" in place else f"sqlite:///{place}"
        (folder / "probe.py").write_text(PROBE.format(url=url))
        worker = [sys.executable, "-m", "holdfast", *WORKER]
        subprocess.run([*worker, "--burst"], check=True, stdout=subprocess.DEVNULL, cwd=folder)  # makes the schema
        rows = [started(folder, words, rounds) for words in COMMANDS]
        return [*rows, Row(READY, measured(worker, rounds, folder, ready))]


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True)
@click.option("--store", "store_name", type=click.Choice(list(store.STORES)), default="sqlite", show_default=True)
@click.option("--peers/--no-peers", "with_peers", default=True, show_default=True)
@click.option("--check", is_flag=True, help="Exit with 1 if a target was missed, by the processor.")
def main(rounds: int, store_name: str, with_peers: bool, check: bool) -> None:
    """Measure what an import and a start of the command cost."""
    rows = [imported("python -c pass", sys.executable, "pass", rounds)]
    rows.append(imported("import asyncio", sys.executable, "import asyncio", rounds))
    rows.append(imported(OURS, sys.executable, OURS, rounds))
    rows += ours(store_name, rounds)
    rows += of_peers(rounds) if with_peers else []
    title = f"Python {sys.version.split()[0]}, {store_name}"
    table = Table("what", "processor time, ms", "wall, ms", "modules", "target", title=title)
    for row in rows:
        modules = "" if row.modules is None else str(row.modules)
        table.add_row(row.what, f"{row.cost.processor_ms:.0f}", f"{row.cost.wall_ms:.0f}", modules, row.target)
    Console().print(table)
    if check and any("MISSED," in row.target for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
