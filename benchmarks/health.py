"""python -m benchmarks.health: PostgreSQL's tables over a long run.

Shows what a claim of one job costs with more and more jobs waiting; then how fast all of them are drained, tenth by
tenth; and the same drain with a transaction held open from its beginning to its end. Real server, fsync on.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.store import postgres
from holdfast.client import new_id
from holdfast.store.contract import Complete, NewJob, Session
from holdfast.store.postgres import PostgresStore

CHUNK = 5_000
ROOM = 100
CLAIMS = 200
PARTS = 10


class Run:
    """One store, filled and drained."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)
        self.session = Session(id=new_id(), name="health", host="-", pid=0, queues=("q",), lease_ms=3_600_000)
        self.waiting = 0

    async def open(self) -> None:
        """A worker is registered."""
        await self.store.open()
        await self.store.register(self.session)

    async def fill(self, size: int) -> None:
        """So many jobs wait."""
        while self.waiting < size:
            count = min(CHUNK, size - self.waiting)
            payload = b'{"data":"' + b"x" * 100 + b'"}'
            jobs = [NewJob(id=new_id(), task="noop", payload=payload, fresh=True) for _ in range(count)]
            await self.store.enqueue("q", jobs)
            self.waiting += count

    async def claim_ms(self) -> float:
        """The median of single claims, each settled by itself."""
        samples = []
        for _ in range(CLAIMS):
            begin = time.perf_counter()
            turn = await self.store.settle_and_claim(self.session, [], ("q",), 1)
            samples.append((time.perf_counter() - begin) * 1000)
            done = [Complete(job.lease, b"null") for job in turn.claimed]
            await self.store.settle_and_claim(self.session, done, (), 0)
            self.waiting -= len(done)
        return statistics.median(samples)

    async def drain(self) -> list[float]:
        """Jobs a second, for each part of all that wait."""
        part = max(1, self.waiting // PARTS)
        speeds: list[float] = []
        done: list[Complete] = []
        count, begin = 0, time.perf_counter()
        while True:
            turn = await self.store.settle_and_claim(self.session, done, ("q",), ROOM)
            done = [Complete(job.lease, b"null") for job in turn.claimed]
            count += len(done)
            if count >= part:
                now = time.perf_counter()
                speeds.append(count / (now - begin))
                count, begin = 0, now
            if not done:
                return speeds


async def measure(size: int, *, held: bool, console: Console) -> tuple[dict[int, float], list[float]]:
    """Return what a claim costs by how many wait, and the speeds of the drain."""
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as url:
        run = Run(url)
        await run.open()
        claims: dict[int, float] = {}
        for step in (1_000, 10_000, 100_000, 1_000_000):
            if step <= size and not held:
                await run.fill(step)
                claims[step] = await run.claim_ms()
        await run.fill(size)
        console.print(f"draining {size:,} jobs" + (", a transaction held open" if held else ""), style="dim")
        async with await psycopg.AsyncConnection.connect(url) as other:
            if held:
                await other.execute("SELECT pg_current_xact_id()")
            speeds = await run.drain()
            await other.rollback()
        await run.store.close()
    return claims, speeds


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    size = parser.parse_args().jobs
    console = Console()
    claims, plain = asyncio.run(measure(size, held=False, console=console))
    _, held = asyncio.run(measure(size, held=True, console=console))
    cost = Table("waiting", "a claim of one, ms", title="Claim cost")
    for waiting, ms in claims.items():
        cost.add_row(f"{waiting:,}", f"{ms:.2f}")
    speed = Table("part", "jobs/s", "with a transaction held open", "ratio", title=f"Drain of {size:,} jobs")
    for number, (ours, theirs) in enumerate(zip(plain, held, strict=False), 1):
        speed.add_row(str(number), f"{ours:,.0f}", f"{theirs:,.0f}", f"{theirs / ours:.2f}")
    speed.add_row("all", *_whole(plain, held))
    console.print(cost)
    console.print(speed)


def _whole(plain: list[float], held: list[float]) -> tuple[str, str, str]:
    """The parts are of one size, so that the whole is their harmonic mean."""
    ours, theirs = statistics.harmonic_mean(plain), statistics.harmonic_mean(held)
    return f"{ours:,.0f}", f"{theirs:,.0f}", f"{theirs / ours:.2f}"


if __name__ == "__main__":
    main()
