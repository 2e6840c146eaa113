"""python -m benchmarks.imports: what an import and a start of the command cost, beside other queues.

Processor time (user and system) of a whole fresh process, so that other work on the machine matters little; the median.
Each peer is in an environment of its own, its files compiled before.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import peers
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
COMMANDS = (("--version",), ("jobs", "--app", "probe:app"), ("worker", "probe:app", "--burst", "--log-level", "error"))
PROBE = """
from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db")

@app.task()
async def nothing() -> None: ...
"""
MOST_MS = {OURS: 150, "holdfast jobs": 300, "holdfast worker": 400}
"""What we allow ourselves, in milliseconds."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    cost_ms: float
    modules: int | None = None

    @property
    def target(self) -> str:
        """What is allowed, and whether it was kept."""
        most = MOST_MS.get(self.what)
        return "" if most is None else f"< {most}: {'kept' if self.cost_ms < most else 'MISSED'}"


def processor_ms(command: Sequence[str], rounds: int, folder: Path = environment.ROOT) -> float:
    """Return the median processor time of a command in milliseconds, after a first run that compiles."""
    found = []
    for _ in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=_environment())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return statistics.median(found[1:])


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def imported(what: str, python: str, statement: str, rounds: int) -> Row:
    """Return what a statement costs, and how many modules it loads."""
    code = f"import sys; {statement}; print(len(sys.modules))"
    counted = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=environment.ROOT)
    return Row(what, processor_ms([python, "-c", statement], rounds), int(counted.stdout))


def started(folder: Path, words: Sequence[str], rounds: int) -> Row:
    """Return what a command of ours costs on an empty store: a worker starts, finds nothing, and ends."""
    return Row(f"holdfast {words[0]}", processor_ms([sys.executable, "-m", "holdfast", *words], rounds, folder))


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
    return sorted(rows, key=lambda row: row.cost_ms)


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True)
@click.option("--peers/--no-peers", "with_peers", default=True, show_default=True)
@click.option("--check", is_flag=True, help="Exit with 1 if a target was missed.")
def main(rounds: int, with_peers: bool, check: bool) -> None:
    """Measure what an import and a start of the command cost."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "probe.py").write_text(PROBE)
        subprocess.run([sys.executable, "-m", "holdfast", *COMMANDS[-1]], check=True, cwd=folder)  # makes the file
        rows = [imported("python -c pass", sys.executable, "pass", rounds)]
        rows.append(imported("import asyncio", sys.executable, "import asyncio", rounds))
        rows.append(imported(OURS, sys.executable, OURS, rounds))
        rows += [started(folder, words, rounds) for words in COMMANDS]
    rows += of_peers(rounds) if with_peers else []
    table = Table("what", "processor time, ms", "modules", "target", title=f"Python {sys.version.split()[0]}")
    for row in rows:
        table.add_row(row.what, f"{row.cost_ms:.0f}", "" if row.modules is None else str(row.modules), row.target)
    Console().print(table)
    if check and any("MISSED" in row.target for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
