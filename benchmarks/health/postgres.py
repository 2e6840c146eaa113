"""PostgreSQL over a long run: what a claim costs with more and more jobs waiting, and drains of all of them.

Shows what a claim of one job costs; then how fast all of them are drained, tenth by tenth; and the same drain with a
transaction held open from its beginning to its end. Real server, fsync on. A drain that takes longer than --seconds
ends there, and counts with what it has done.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

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
MOST = 1_000_000
PARTS = 10
STEPS = (1_000, 10_000, 100_000, 1_000_000)
NEWS = 5.0
"""Seconds between two lines about a long filling."""
FLAT = 1.5
HALF = 0.5


@dataclass
class Found:
    """What one run found."""

    claim_ms: dict[int, float] = field(default_factory=dict)
    """By waiting jobs: the median of claims of one job."""
    speeds: list[float] = field(default_factory=list)
    """Jobs a second, for each part of the drain."""
    done: int = 0


class Run:
    """One store, filled and drained."""

    def __init__(self, url: str, console: Console) -> None:
        self.store = PostgresStore(url)
        self.session = Session(id=new_id(), name="health", host="-", pid=0, queues=("q",), lease_ms=36_000_000)
        self.waiting = 0
        self._console = console

    async def open(self) -> None:
        """A worker is registered."""
        await self.store.open()
        await self.store.register(self.session)

    async def fill(self, size: int) -> None:
        """So many jobs wait."""
        told = time.monotonic()
        while self.waiting < size:
            count = min(CHUNK, size - self.waiting)
            payload = b'{"data":"' + b"x" * 100 + b'"}'
            jobs = [NewJob(id=new_id(), task="noop", payload=payload, fresh=True) for _ in range(count)]
            await self.store.enqueue("q", jobs)
            self.waiting += count
            if time.monotonic() - told > NEWS:
                told = time.monotonic()
                self._tell(f"{self.waiting:,} of {size:,} wait")

    def _tell(self, line: str) -> None:
        self._console.print(line, style="dim")

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
        self._tell(f"{self.waiting:,} wait: a claim takes {statistics.median(samples):.2f} ms")
        return statistics.median(samples)

    async def drain(self, found: Found, seconds: float) -> None:
        """All that wait are done, or as many as the seconds allow; the speed of each part is noted."""
        part = max(1, self.waiting // PARTS)
        done: list[Complete] = []
        count, begin = 0, time.perf_counter()
        deadline = begin + seconds
        while time.perf_counter() < deadline:
            turn = await self.store.settle_and_claim(self.session, done, ("q",), ROOM)
            done = [Complete(job.lease, b"null") for job in turn.claimed]
            count += len(done)
            if count >= part:
                self._note(found, count, time.perf_counter() - begin)
                count, begin = 0, time.perf_counter()
            if not done:
                return
        self._note(found, count, time.perf_counter() - begin)
        self._tell(f"given up after {seconds:,.0f} s")

    def _note(self, found: Found, count: int, seconds: float) -> None:
        if count:
            found.done += count
            found.speeds.append(count / seconds)
            self._tell(f"{found.done:,} of {self.waiting:,} done, the last {count:,} at {count / seconds:,.0f}/s")


async def measure(size: int, seconds: float, *, held: bool, console: Console) -> Found:
    """Return what was found on a server of its own."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as url:
        run = Run(url, console)
        await run.open()
        for step in () if held else STEPS:
            if step <= size:
                await run.fill(step)
                found.claim_ms[step] = await run.claim_ms()
        await run.fill(size)
        console.print(f"draining {size:,} jobs" + (", a transaction held open" if held else ""), style="dim")
        async with await psycopg.AsyncConnection.connect(url) as other:
            if held:
                await other.execute("SELECT pg_current_xact_id()")
            await run.drain(found, seconds)
            await other.rollback()
        await run.store.close()
    return found


def claim_growth(claim_ms: dict[int, float]) -> float:
    """The dearest claim, beside the one with the fewest jobs waiting."""
    return max(claim_ms.values()) / claim_ms[min(claim_ms)] if claim_ms else 1.0


def whole(speeds: list[float]) -> float:
    """The parts are of one size, so that the speed of the whole is their harmonic mean."""
    return statistics.harmonic_mean(speeds) if speeds else 0.0


def show(console: Console, size: int, plain: Found, held: Found) -> None:
    """Print both tables, each with its target and verdict."""
    cost = Table("waiting", "a claim of one, ms", title="Claim cost")
    for waiting, ms in plain.claim_ms.items():
        cost.add_row(f"{waiting:,}", f"{ms:.2f}")
    speed = Table("part", "jobs/s", "with a transaction held open", "ratio", title=f"Drain of {size:,} jobs")
    for number, (ours, theirs) in enumerate(zip(plain.speeds, held.speeds, strict=False), 1):
        speed.add_row(str(number), f"{ours:,.0f}", f"{theirs:,.0f}", f"{theirs / ours:.2f}")
    both = min(len(plain.speeds), len(held.speeds))
    all_plain, all_held = whole(plain.speeds[:both]), whole(held.speeds[:both])
    share = all_held / all_plain if all_plain else 0.0
    speed.add_row("all of these", f"{all_plain:,.0f}", f"{all_held:,.0f}", f"{share:.2f}")
    console.print(cost)
    grown = claim_growth(plain.claim_ms)
    console.print(f"claim cost <= {FLAT} x of the fewest: {grown:.2f} x, {_word(grown <= FLAT)}")
    console.print(speed)
    console.print(f"held open >= {HALF} x of the plain drain: {share:.2f} x, {_word(share >= HALF)}")


def _word(kept: bool) -> str:
    return "[green]pass[/]" if kept else "[red]fail[/]"


def run(jobs: int, seconds: float, console: Console) -> dict[str, Any]:
    """Both drains are measured and shown; return every figure."""
    plain = asyncio.run(measure(jobs, seconds, held=False, console=console))
    held = asyncio.run(measure(jobs, seconds, held=True, console=console))
    show(console, jobs, plain, held)
    return {"plain": asdict(plain), "held": asdict(held)}
