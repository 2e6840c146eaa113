"""The order of a run: every round measures every system, so that noise falls on all alike."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.compare.environment import NotInstallable
from benchmarks.compare.measure import measure
from benchmarks.compare.process import PATIENCE, Failed, TimedOut
from benchmarks.system import System

MOST = {"enqueue": 10_000, "footprint": 10_000, "wal": 5_000}
"""What costs the same for each job, so that a part of the jobs will do."""
OURS = "holdfast"
NO_PEERS = ("floor", "bare")
METRICS = {
    "drain": ("drain", "drain_us", "drain_server_us"),
    "latency": ("p50", "p95"),
    "call": ("call_p50", "callers"),
    "footprint": ("waiting_bytes",),
    "wal": ("wal_bytes",),
}
"""What a measure gives, where it is not one figure of its own name."""
LOWER_IS_BETTER = {
    "p50", "p95", "call_p50", "sleep", "wakes", "waiting_bytes", "event_bytes", "wal_bytes",
    "drain_us", "drain_server_us",
}  # fmt: skip


@dataclass
class Outcome:
    """Every figure of a run, by system, metric and round."""

    rounds: int
    figures: dict[tuple[str, str], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    versions: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    words: dict[tuple[str, str], str] = field(default_factory=dict)
    """By system and metric: why there is no figure."""

    def of(self, system: str, metric: str) -> float | None:
        """The median over the rounds."""
        return _median(self.figures.get((system, metric), {}).values())

    def ratio(self, metric: str, over: str, under: str) -> float | None:
        """The median of each round's own ratio: both figures come from the same minute."""
        above, below = (self.figures.get((name, metric), {}) for name in (over, under))
        return _median(above[each] / below[each] for each in above.keys() & below.keys())

    def given_up(self, system: System, name: str) -> bool:
        """What timed out once or cannot be installed is not waited for again."""
        final = (TimedOut.word, NotInstallable.word)
        return any(self.words.get((system.name, metric)) in final for metric in METRICS.get(name, (name,)))

    def peers(self, metric: str) -> list[str]:
        """Those that have this figure, the best first."""
        names = {name for name, kind in self.figures if kind == metric and not name.startswith((OURS, *NO_PEERS))}
        return sorted(names, key=lambda name: self.of(name, metric) or 0, reverse=metric not in LOWER_IS_BETTER)

    def better(self, metric: str, ours: str, other: str) -> float | None:
        """How many times better ours is: rates are ours over theirs, latencies and sizes theirs over ours."""
        return self.ratio(metric, *((other, ours) if metric in LOWER_IS_BETTER else (ours, other)))


@dataclass(frozen=True)
class Plan:
    """What a run measures."""

    systems: tuple[System, ...]
    measures: tuple[str, ...]
    jobs: int
    peer_jobs: int
    rounds: int
    patience: float = PATIENCE

    def jobs_for(self, system: System, name: str) -> int:
        wanted = min(self.jobs, self.peer_jobs) if system.packages else self.jobs
        return min(wanted, MOST.get(name, wanted))


def run(plan: Plan, tell: Callable[[str], None]) -> Outcome:
    """The whole plan has been measured; what failed is said in the outcome."""
    outcome = Outcome(plan.rounds)
    for turn in range(plan.rounds):
        for name in plan.measures:
            if name != "memory" or turn == 0:
                for system in _order(plan.systems, turn):
                    if name in system.measures and not outcome.given_up(system, name):
                        tell(f"round {turn + 1} of {plan.rounds}: {name}, {system.name}")
                        _take(outcome, plan, system, name, turn)
    return outcome


def _take(outcome: Outcome, plan: Plan, system: System, name: str, turn: int) -> None:
    """One measurement is in the outcome: its figures, or why there are none."""
    try:
        found, version = measure(system, name, plan.jobs_for(system, name), plan.patience)
    except (Failed, NotInstallable) as error:
        outcome.failures.append(str(error))
        for metric in METRICS.get(name, (name,)):
            outcome.words[system.name, metric] = error.word
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
