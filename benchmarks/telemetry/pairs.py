"""Rounds in which every variant has its turn, and what they say: medians of the rounds' ratios, with their spread."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from benchmarks.store import STORES
from benchmarks.telemetry.measured import Figures, Order

ROOT = Path(__file__).parents[2]
Found = dict[str, list[dict[str, Figures]]]
"""By variant and round: the figures of each measure."""


class Ratio(NamedTuple):
    """How a variant does beside the first one, over all rounds: 1 is as well, less is worse."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.2f} to {self.high:.2f})"


def ratio(ratios: Sequence[float]) -> Ratio:
    """Return the median, and between what the middle half of the rounds lies."""
    if len(ratios) < 3:
        return Ratio(statistics.median(ratios), min(ratios), max(ratios))
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(statistics.median(ratios), low, high)


def by_rate(found: Found, first: str, variant: str, measure: str) -> Ratio:
    """Return how many jobs a second it does beside the first one."""
    return ratio([b[measure].rate / a[measure].rate for a, b in zip(found[first], found[variant], strict=True)])


def by_cpu(found: Found, first: str, variant: str, measure: str) -> Ratio:
    """Return how little processor time its process takes beside the first one."""
    return ratio([a[measure].cpu / b[measure].cpu for a, b in zip(found[first], found[variant], strict=True)])


def median(found: Found, variant: str, measure: str) -> Figures:
    """Return the median of each figure by itself."""
    return Figures(*map(statistics.median, zip(*(each[measure] for each in found[variant]), strict=True)))


def measure(store: str, order: Order, tree: Path) -> dict[str, Figures]:
    """Return the figures of one variant, in a process and a store of its own; another process reads its stderr."""
    make = STORES[store] if store != "memory" else lambda folder: nullcontext("memory")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, make(Path(folder)) as url:
        command = [sys.executable, "-m", "benchmarks.telemetry.measured", dataclasses.replace(order, url=url).text()]
        path = os.pathsep.join([str(tree / "src"), str(ROOT)])
        reader = subprocess.Popen(["wc", "-l"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert reader.stdin is not None
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=reader.stdin, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        reader.stdin.close()
        reader.wait()
    return {name: Figures(*each) for name, each in json.loads(done.stdout.splitlines()[-1]).items()}


def compare(
    names: Sequence[str], rounds: int, take: Callable[[str], dict[str, Figures]], tell: Callable[[str], None]
) -> Found:
    """Return what was found in so many rounds, every second of which goes backwards."""
    found: Found = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(take(name))
        last = ((name, each[-1]["drain"]) for name, each in found.items())
        tell(f"round {number + 1}: " + ", ".join(f"{name} {each.rate:,.0f}/s {each.cpu:.1f} us" for name, each in last))
    return found
