"""The order of a run: every round measures every system, so that noise falls on all alike."""

from __future__ import annotations

import statistics
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.measure import measure
from benchmarks.process import Failed
from benchmarks.system import System

ONE_BY_ONE = 10_000
"""Enqueueing one by one costs the same for each job, so a part of the jobs will do."""


@dataclass
class Outcome:
    """Every figure of a run, by system, metric and round."""

    rounds: int
    figures: dict[tuple[str, str], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    versions: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def of(self, system: str, metric: str) -> float | None:
        """The median over the rounds."""
        return _median(self.figures.get((system, metric), {}).values())

    def ratio(self, metric: str, over: str, under: str) -> float | None:
        """The median of each round's own ratio: both figures come from the same minute."""
        above, below = (self.figures.get((name, metric), {}) for name in (over, under))
        return _median(above[each] / below[each] for each in above.keys() & below.keys())


@dataclass(frozen=True)
class Plan:
    """What a run measures."""

    systems: tuple[System, ...]
    measures: tuple[str, ...]
    jobs: int
    peer_jobs: int
    rounds: int

    def jobs_for(self, system: System, name: str) -> int:
        wanted = min(self.jobs, self.peer_jobs) if system.packages else self.jobs
        return min(wanted, ONE_BY_ONE) if name == "enqueue" else wanted


def run(plan: Plan, tell: Callable[[str], None]) -> Outcome:
    """The whole plan has been measured; what failed is said in the outcome."""
    outcome = Outcome(plan.rounds)
    for turn in range(plan.rounds):
        for name in plan.measures:
            if name != "memory" or turn == 0:
                for system in _order(plan.systems, turn):
                    if name in system.measures:
                        tell(f"round {turn + 1} of {plan.rounds}: {name}, {system.name}")
                        _take(outcome, system, name, plan.jobs_for(system, name), turn)
    return outcome


def _take(outcome: Outcome, system: System, name: str, jobs: int, turn: int) -> None:
    try:
        found, version = measure(system, name, jobs)
    except (Failed, subprocess.CalledProcessError) as error:
        outcome.failures.append(str(error))
        return
    for metric, value in found.items():
        outcome.figures[system.name, metric][turn] = value
    if version:
        outcome.versions[system.name] = version


def _order(systems: tuple[System, ...], turn: int) -> Iterable[System]:
    """Back and forth, so that no system is always the first or always follows the same one."""
    return reversed(systems) if turn % 2 else systems


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None
