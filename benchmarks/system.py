"""What is measured: a system, and the place it is given to work in.

Standard library only: every system's own environment imports this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAYLOAD = "x" * 100
RATES = ("enqueue", "bulk", "drain")
MEASURES = (*RATES, "latency", "call", "sleep", "wakes", "footprint", "wal", "memory")
CALLERS = 50
CALLS = 200
"""How often each caller calls, and one caller alone five times as often."""
WARM_CALLS = 20
SLEEPERS, SLEEP = 2_000, 0.05
"""Jobs that do nothing for so many seconds; with 100 at a time they take a second at best."""
QUANTILES = (5, 25, 50, 75, 95, 99)
"""Per cent: what is told of a distribution."""
SERVER = "HOLDFAST_BENCH_SERVER"
"""The variable that tells a script which process the server of its store is."""
SILENT = "HOLDFAST_BENCH_SILENT"
"""The variable that tells a script that nobody wants to know when a handler starts."""
DONE = "done"
"""The file, in a place's folder, to which `toil` appends the numbers of jobs that are done."""
TOIL = 0.2
"""Seconds of a job of `benchmarks.recovery`."""


@dataclass(frozen=True)
class System:
    """One row of the table."""

    name: str
    script: str
    """A module that Python runs with -m, or a path of a .mjs file that node runs."""
    store: str
    measures: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """What its own environment needs. None: it runs in the environment of the harness."""
    variant: str = ""
    """Handed to the script, where one script is measured in several settings."""
    most: tuple[tuple[str, int], ...] = ()
    """The most jobs for one measure, where more would measure something else."""
    beside: str = "holdfast"
    """The row of ours that it is compared with: the one at the same durability."""
    log: str = ""
    """The key of its events in Redis, where they are counted apart from the jobs."""
    note: str = ""
    """How it is configured."""
    lacks: str = ""
    """What it does not do that Holdfast does, for the page."""

    def jobs(self, measure: str, wanted: int) -> int:
        """How many jobs this system gets for one measure."""
        return min(wanted, dict(self.most).get(measure, wanted))


@dataclass(frozen=True)
class Place:
    """A fresh store for one measurement."""

    url: str
    """Where the store is: a file for SQLite, an address for a server."""
    folder: Path
    jobs: int
    variant: str = ""
    server: int = 0
    """The process of the server, if the store has one."""
