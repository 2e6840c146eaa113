"""The same work by several interpreters in turns: with and without the GIL, or of two versions of Python.

python -m benchmarks.interpreter --with ../python3.14t/bin/python --with ../python3.14/bin/python

Each needs Holdfast installed (`pip install -e ".[cli,redis]"`). Measured are a drain of jobs that do nothing, handlers
in threads that compute, and handlers in the loop that compute, each interpreter in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
JOBS = 20_000
COMPUTING = 400
ROUNDS = 100_000
"""Of a loop that computes: some milliseconds."""
THREADS = 4


async def measured(url: str) -> dict[str, float]:
    """The figures of one store in this interpreter."""
    from holdfast import Holdfast

    app = Holdfast(url)

    @app.task(queue="nothing")
    async def nothing(data: str) -> None: ...

    def compute(rounds: int) -> int:
        return sum(number * number % 7 for number in range(rounds))

    in_thread = app.task(queue="threads", name="threads", executor="thread")(compute)

    @app.task(queue="loop")
    async def in_loop(rounds: int) -> int:
        return compute(rounds)

    found: dict[str, float] = {}
    async with app:
        for task, jobs, argument, slots in (
            (nothing, JOBS, "x" * 100, 100),
            (in_thread, COMPUTING, ROUNDS, THREADS),
            (in_loop, COMPUTING, ROUNDS, 100),
        ):
            many: Any = task
            await many.enqueue_many(many.args(argument) for _ in range(jobs))
            wall, processor = time.perf_counter(), time.process_time()
            report = await app.worker(queues=[many.queue], slots=slots).run(burst=True)
            seconds, processor = time.perf_counter() - wall, time.process_time() - processor
            assert report.completed == jobs, report
            found[f"{many.queue}, jobs/s"] = jobs / seconds
            found[f"{many.queue}, µs of processor"] = processor / jobs * 1e6
    return found


def child(url: str) -> None:
    """Print the figures of this interpreter."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    build = " free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    name = f"{sys.version.split()[0]}{build}, {'with' if gil else 'without'} the GIL"
    print(json.dumps({"name": name, "figures": asyncio.run(measured(url))}))


def run(python: str, url: str) -> dict[str, Any]:
    """The figures of one store in one interpreter."""
    # Modules that have not said that they need no GIL bring it back, unless they are told not to.
    environment = {**os.environ, "PYTHON_GIL": "0"} if _is_free(python) else dict(os.environ)
    command = [python, "-m", "benchmarks.interpreter", "--child", url]
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _is_free(python: str) -> bool:
    asked = "import sysconfig; print(int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))))"
    return subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip() == "1"


def main() -> None:
    """Print medians of all rounds, by store and interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="pythons", action="append", default=[], help="an interpreter; this one, if none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child)
        return
    from benchmarks.store import redis

    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for number in range(chosen.rounds):
        pythons = chosen.pythons or [sys.executable]
        for python in pythons if number % 2 == 0 else reversed(pythons):
            with tempfile.TemporaryDirectory() as folder, redis(Path(folder)) as server:
                for store, url in (("sqlite", f"sqlite:///{folder}/jobs.db"), ("redis", server)):
                    found = run(python, url)
                    for what, value in found["figures"].items():
                        figures[store, what, found["name"]].append(value)
    for (store, what, name), values in sorted(figures.items()):
        rounds = ", ".join(f"{each:,.1f}" for each in values)
        print(f"{store:7} {what:30} {name:36} {statistics.median(values):12,.1f}   {rounds}")


if __name__ == "__main__":
    main()
