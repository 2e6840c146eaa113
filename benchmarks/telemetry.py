"""What logs, metrics and traces cost: `python -m benchmarks.telemetry --store sqlite|redis|memory`.

Each round drains the same number of jobs once with nothing on and once with each variant, every time in a process
of its own on a fresh store, so that noise falls on all alike. The ratio of a variant is the median of its rounds'
own: its rate over that of the same round with nothing on. The processor time of the worker's process tells the same
where others use the machine, too.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.app import QUEUE, SLOTS, application, fill, fill_elsewhere, run
from benchmarks.script import Stopwatch, require
from benchmarks.store import STORES
from benchmarks.system import Place

OFF = "off"
Options = dict[str, Any]
"""Options of the worker."""


def _off() -> Options:
    return {"log_jobs": False}


def _logs(form: Any) -> Callable[[], Options]:
    def set_up() -> Options:
        from holdfast.telemetry.line_handler import log_to_stderr

        log_to_stderr("INFO", form)
        return {"log_jobs": True}

    return set_up


def _records() -> Options:
    """A program's own handler, which gets ordinary records."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    return {"log_jobs": True}


def _observed() -> Options:
    """An observer that hears everything, and does nothing."""
    from holdfast.telemetry.observer import Observer

    return {"log_jobs": False, "observers": [Observer()]}


def _metrics() -> Options:
    """Counts for Prometheus, with a port that nobody asks."""
    return {"log_jobs": False, "metrics_port": 0}


def _metrics_and_logs() -> Options:
    return {**_logs("human")(), **_metrics(), "log_jobs": True}


def _otel() -> Options:
    """OpenTelemetry's SDK, with a reader in memory."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    return {"log_jobs": False}


VARIANTS: dict[str, Callable[[], Options]] = {
    OFF: _off,
    "observer": _observed,
    "job logs": _logs("human"),
    "job logs, json": _logs("json"),
    "job logs, own handler": _records,
    "metrics": _metrics,
    "metrics and job logs": _metrics_and_logs,
    "metrics, otel": _otel,
}
"""Sets up a variant in a fresh process, and returns the worker's options."""


class Figures(NamedTuple):
    """What a drain has taken."""

    rate: float
    """Jobs a second."""
    cpu: float
    """Microseconds of the worker's own processor time for each job."""


async def drain(place: Place, options: Options) -> Figures:
    """Return the figures of a worker in burst mode."""
    handled = 0

    def count() -> None:
        nonlocal handled
        handled += 1

    app, noop = application(place, count)
    async with app:
        if place.variant == "memory":
            await fill(noop, place.jobs)
        worker = app.worker(queues=[QUEUE], slots=SLOTS, **options)
        spent = time.process_time()
        with Stopwatch() as watch:
            await worker.run(burst=True)
        spent = time.process_time() - spent
    require(handled, place.jobs)
    return Figures(place.jobs / watch.seconds, spent / place.jobs * 1e6)


def measure(store: str, name: str, jobs: int) -> Figures:
    """Return the figures with this variant, in a process of its own, whose stderr another process reads."""
    make = STORES[store] if store != "memory" else lambda folder: nullcontext(str(folder / "none"))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, make(Path(folder)) as url:
        place = Place(url, Path(folder), jobs, "memory" if store == "memory" else "")
        if store != "memory":
            fill_elsewhere(place)
        words = [f"--one={name}", f"--url={url}", f"--folder={folder}", f"--jobs={jobs}", f"--variant={place.variant}"]
        reader = subprocess.Popen(["wc", "-l"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert reader.stdin is not None
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.telemetry", *words],
            stdout=subprocess.PIPE, stderr=reader.stdin, check=True,
        )  # fmt: skip
        reader.stdin.close()
        reader.wait()
    return Figures(*json.loads(done.stdout.splitlines()[-1]))


def compare(store: str, names: list[str], rounds: int, jobs: int) -> None:
    """Print the figures of all variants, round by round, and their ratios."""
    found: dict[str, list[Figures]] = {name: [] for name in (OFF, *names)}
    for number in range(rounds):
        order = [OFF, *names] if number % 2 == 0 else [*reversed(names), OFF]
        for name in order:
            found[name].append(measure(store, name, jobs))
        told = (f"{name} {each[-1].rate:,.0f}/s {each[-1].cpu:.1f} us" for name, each in found.items())
        print(f"round {number + 1}:", ", ".join(told), flush=True)
    print(f"\n{store}, {jobs:,} jobs that do nothing, {SLOTS} slots, {rounds} rounds:")
    for name in (OFF, *names):
        pairs = list(zip(found[name], found[OFF], strict=True))
        rate, cpu = (statistics.median(each[at] for each in found[name]) for at in (0, 1))
        by_rate = statistics.median(on.rate / off.rate for on, off in pairs)
        by_cpu = statistics.median(off.cpu / on.cpu for on, off in pairs)
        print(
            f"  {name:24} {rate:>9,.0f}/s {by_rate:6.3f} of off;  {cpu:6.1f} us a job {by_cpu:6.3f} by processor time"
        )


def main() -> None:
    """Compare, or measure one variant in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=[*STORES, "memory"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--only", action="append", choices=[name for name in VARIANTS if name != OFF])
    for hidden in ("--one", "--url", "--folder", "--variant"):
        parser.add_argument(hidden, help=argparse.SUPPRESS, default="")
    given = parser.parse_args()
    if given.one:
        place = Place(given.url, Path(given.folder), given.jobs, given.variant)
        print(json.dumps(run(drain(place, VARIANTS[given.one]()))))
        return
    names = given.only or [name for name in VARIANTS if name != OFF]
    compare(given.store, names, given.rounds, given.jobs)


if __name__ == "__main__":
    main()
