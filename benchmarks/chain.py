"""Chains and fan-ins: what a step costs beside a plain job, and whether a wide fan-in stays linear.

    python -m benchmarks.chain [--store sqlite] [--jobs 5000] [--rounds 3] [--widths 1000,2000,5000,10000]

A plain job is enqueued in bulk, claimed and completed; a step of a chain is enqueued by the completion before it,
claimed and completed. Both go through one worker with a hundred slots, in turns, so that a noisy machine is equally
noisy to both. "across" goes to another queue at each step. A fan-in is measured from the first completion of a member
to the start of the job that waits for all, per member.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from benchmarks.store import fresh
from benchmarks.system import System
from holdfast import Continued, Holdfast, Job
from holdfast.store.url import open_store

SLOTS = 100
STEPS = 50
TARGET = {"within": 1.3, "across": 2.0}


class Bench:
    """An app with the jobs to be measured."""

    def __init__(self, url: str) -> None:
        self.app = app = Holdfast(store=open_store(url))
        self.gathered = 0.0

        @app.task(queue="one")
        async def plain(n: int) -> int:
            return n

        @app.task(queue="one")
        async def within(job: Job, n: int) -> int | Continued[int]:
            return n if n <= 1 else job.continue_with(within, n - 1)

        @app.task(queue="two")
        async def there(job: Job, n: int) -> int | Continued[int]:
            return n if n <= 1 else job.continue_with(across, n - 1)

        @app.task(queue="one")
        async def across(job: Job, n: int) -> int | Continued[int]:
            return n if n <= 1 else job.continue_with(there, n - 1)

        @app.task(queue="one")
        async def gather(job: Job) -> None:
            self.gathered = time.perf_counter()

        self.plain, self.within, self.across, self.gather = plain, within, across, gather

    async def plain_jobs(self, jobs: int) -> float:
        """Return the seconds of so many plain jobs."""
        return await self._timed(lambda: self.plain.enqueue_many(self.plain.args(n) for n in range(jobs)))

    async def steps_within(self, jobs: int) -> float:
        """Return the seconds of so many steps of chains in one queue."""
        return await self._timed(
            lambda: self.within.enqueue_many(self.within.args(STEPS) for _ in range(jobs // STEPS))
        )

    async def steps_across(self, jobs: int) -> float:
        """Return the seconds of so many steps that each go to the other queue."""
        return await self._timed(
            lambda: self.across.enqueue_many(self.across.args(STEPS) for _ in range(jobs // STEPS))
        )

    async def _timed(self, fill: Callable[[], Awaitable[object]]) -> float:
        start = time.perf_counter()
        await fill()
        await self._drain()
        return time.perf_counter() - start

    async def _drain(self) -> None:
        await self.app.worker(["one", "two"], slots=SLOTS).run(burst=True)

    async def fan_in(self, width: int) -> float:
        """Return the milliseconds per member of a fan-in."""
        flow = self.app.flow(f"fan-{os.urandom(4).hex()}")
        flow.reduce(flow.map(self.plain, range(width)), self.gather.args())
        await flow.start()
        start = time.perf_counter()
        await self._drain()
        return (self.gathered - start) * 1000 / width


async def measure(url: str, jobs: int, rounds: int, widths: list[int]) -> tuple[dict[str, float], dict[int, float]]:
    """Return the times per job, in milliseconds, and those of each fan-in per member."""
    bench = Bench(url)
    kinds = {"plain": bench.plain_jobs, "within": bench.steps_within, "across": bench.steps_across}
    times: dict[str, list[float]] = {name: [] for name in kinds}
    fans: dict[int, list[float]] = {width: [] for width in widths}
    async with bench.app:
        await bench.plain_jobs(200)
        for _ in range(rounds):
            for name, run in kinds.items():
                times[name].append(await run(jobs) * 1000 / jobs)
            for width in widths:
                fans[width].append(await bench.fan_in(width))
    return (
        {name: statistics.median(each) for name, each in times.items()},
        {width: statistics.median(each) for width, each in fans.items()},
    )


@contextmanager
def place(store: str) -> Iterator[str]:
    """Yield the URL of a fresh store."""
    with fresh(System(name="chain", script="", store=store, measures=()), 0) as found:
        yield found.url if "://" in found.url else f"sqlite:///{found.url}"


def main() -> None:
    """Measure, and print what came out beside what it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite", choices=["sqlite", "redis", "postgres"])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--widths", default="1000,2000,5000,10000")
    options = parser.parse_args()
    widths = [int(width) for width in options.widths.split(",") if width]
    with place(options.store) as url:
        times, fans = asyncio.run(measure(url, options.jobs, options.rounds, widths))
    table = Table("what", "ms per job", "times a plain job", "at most", title=f"chains on {options.store}")
    for name, each in times.items():
        table.add_row(name, f"{each:.3f}", f"{each / times['plain']:.2f}", str(TARGET.get(name, "")))
    for width, each in fans.items():
        table.add_row(f"fan-in of {width}", f"{each:.3f}", f"{each / times['plain']:.2f}", "the same for each width")
    Console().print(table)


if __name__ == "__main__":
    main()
