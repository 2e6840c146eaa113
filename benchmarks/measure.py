"""One measurement of one system: from a verb to named figures."""

from __future__ import annotations

import random
import statistics
import time

from benchmarks.process import Failed, run, talking
from benchmarks.store import fresh
from benchmarks.system import Place, System

SAMPLES = 200
WARM_UP = 5
IDLE_SECONDS = (0.02, 0.06)
"""Long enough that the worker is asleep when the next job comes, and never in step with its timers."""

Figures = dict[str, float]


def measure(system: System, name: str, jobs: int) -> tuple[Figures, str | None]:
    """The figures of one measurement, and the version of the system if it told."""
    with fresh(system, system.jobs(name, jobs)) as place:
        if name == "latency":
            return latency(system, place), None
        if name == "call":
            with talking(system, "serve", place):
                return figures(system, name, place)
        return figures(system, name, place)


def figures(system: System, name: str, place: Place) -> tuple[Figures, str | None]:
    lines = run(system, name, place)
    found = {line["metric"]: float(line["value"]) for line in lines if "metric" in line}
    if not found:
        raise Failed(f"{system.name} {name}: it printed no figure")
    return found, next((line["version"] for line in lines if "version" in line), None)


def latency(system: System, place: Place) -> Figures:
    """Milliseconds from the call that enqueues to the start of the handler in another process."""
    with talking(system, "serve", place) as worker, talking(system, "send", place) as sender:
        samples = []
        for _ in range(WARM_UP + SAMPLES):
            time.sleep(random.uniform(*IDLE_SECONDS))
            sender.ask()
            sent = sender.hear("sent")
            samples.append((worker.hear("started") - sent) / 1e6)
    cuts = statistics.quantiles(samples[WARM_UP:], n=20)
    return {"p50": cuts[9], "p95": cuts[18]}
