"""The curve: what enqueue, claim and settle cost from 1,000 to 1,000,000 waiting jobs.

    python -m benchmarks.curve [--sizes 1000,10000,100000,1000000] [--keys 10000] [--calls 300]

One database for each size, with and without keys; the calls are interleaved, so that a noisy machine is equally noisy
to all. Times are medians of single calls (one job each) through the store, commit included. "steps" are instructions
of SQLite's virtual machine for each call, in thousands: they count rows touched, and do not depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.client import new_id
from holdfast.store.contract import Claimed, Complete, NewJob, Session
from holdfast.store.sqlite import SqliteStore

STEP = 10
CHUNK = 1000
CALLS = ("enqueue", "claim", "settle")


class Field:
    """One database with so many waiting jobs, and the times of calls on it."""

    def __init__(self, folder: Path, size: int, keys: int) -> None:
        self.size = size
        self.keys = keys
        self.store = SqliteStore(f"sqlite:///{folder}/{size}-{keys}.db")
        self.session = Session(id=new_id(), name="curve", host="-", pid=0, queues=("q",), lease_ms=3_600_000)
        self.ms: dict[str, list[float]] = {name: [] for name in CALLS}
        self.steps: dict[str, list[int]] = {name: [] for name in CALLS}
        self._count = 0
        self._next = 0

    async def fill(self) -> None:
        """The jobs wait."""
        await self.store.open()
        for begin in range(0, self.size, CHUNK):
            await self.store.enqueue("q", [self._job() for _ in range(min(CHUNK, self.size - begin))])
        await self.store.register(self.session)
        writer = self.store._writer.connection
        assert writer is not None
        writer.set_progress_handler(self._tick, STEP)

    def _tick(self) -> int:
        self._count += STEP
        return 0

    def _job(self) -> NewJob:
        self._next += 1
        key = f"tenant-{self._next % self.keys}" if self.keys else None
        return NewJob(id=new_id(), task="noop", payload=b'{"data":"' + b"x" * 100 + b'"}', fresh=True, key=key)

    async def round(self) -> None:
        """One job comes, one is claimed, one is settled."""
        await self._timed("enqueue", lambda: self.store.enqueue("q", [self._job()]))
        claimed: list[Claimed] = (await self._timed("claim", lambda: self._turn([], 1))).claimed
        await self._timed("settle", lambda: self._turn([Complete(job.lease, b"null") for job in claimed], 0))

    async def _turn(self, done: list[Complete], room: int) -> Any:
        return await self.store.settle_and_claim(self.session, done, ["q"], room)

    async def _timed(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        self._count = 0
        begin = time.perf_counter()
        answer = await call()
        self.ms[name].append((time.perf_counter() - begin) * 1000)
        self.steps[name].append(self._count)
        return answer


async def measure(sizes: list[int], keys: int, calls: int, console: Console) -> list[Field]:
    """Return the fields, each with its times."""
    with tempfile.TemporaryDirectory() as folder:
        fields = [Field(Path(folder), size, many) for many in (0, keys) for size in sizes]
        for field in fields:
            console.print(f"filling {field.size:,} jobs, {field.keys:,} keys", style="dim")
            await field.fill()
        for _ in range(calls):
            for field in fields:
                await field.round()
        for field in fields:
            await field.store.close()
    return fields


def table(fields: list[Field]) -> Table:
    """Return the curve as a table; the ratio is to the smallest size with the same keys."""
    shown = Table("waiting", "keys", *(f"{name}, ms" for name in CALLS), *(f"{name}, steps" for name in CALLS), "ratio")
    smallest = {field.keys: field for field in reversed(fields)}
    for field in fields:
        base = smallest[field.keys]
        ratio = max(statistics.median(field.ms[name]) / statistics.median(base.ms[name]) for name in CALLS)
        times = [f"{statistics.median(field.ms[name]):.3f}" for name in CALLS]
        steps = [f"{statistics.median(field.steps[name]) / 1000:.2f}k" for name in CALLS]
        shown.add_row(f"{field.size:,}", f"{field.keys:,}", *times, *steps, f"{ratio:.2f}")
    return shown


def main() -> None:
    """Print the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    console = Console()
    console.width = max(console.width, 110)
    sizes = [int(size) for size in options.sizes.split(",")]
    console.print(table(asyncio.run(measure(sizes, options.keys, options.calls, console))))


if __name__ == "__main__":
    main()
