"""python -m benchmarks.aged: a store with a past beside a new one.

    python -m benchmarks.aged [--store postgres|redis|sqlite] [--jobs 20000] [--kept 20000] [--json FILE]

Drains a backlog on a new store; then keeps finished jobs, keys and delayed jobs of other queues, lets PostgreSQL
analyze its tables at the moments that mislead it most (the order while there is a backlog, the jobs while none waits),
and drains a backlog of the same size again. Also what a look at all queues takes, in both. PostgreSQL has its stock
settings.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks import store as places
from holdfast.client import new_id
from holdfast.store import open_store
from holdfast.store.contract import Complete, NewJob, Session, Store

CHUNK = 1_000
ROOM = 100
LOOKS = 9
DAY_MS = 24 * 3_600_000
LEAST = 0.7
"""The share of the new store's speed that an aged one should keep."""


@dataclass
class Found:
    """What one drain found."""

    drain: float
    """Jobs a second."""
    backlog_ms: float
    """A look at all queues, with the backlog waiting."""
    idle_ms: float
    """The same, with nothing waiting."""


@contextmanager
def stock_postgres() -> Iterator[str]:
    """A server as `initdb` sets it up."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from servers import PostgresServer

    server = PostgresServer(("listen_addresses=127.0.0.1",))
    server.start()
    try:
        yield server.url().partition("?")[0]
    finally:
        server.close()


class Run:
    """One store, with a worker of our own."""

    def __init__(self, store: Store, url: str) -> None:
        self.store, self.url = store, url
        queues = ("q", "keyed", "later")
        self.session = Session(id=new_id(), name="aged", host="-", pid=0, queues=queues, lease_ms=36_000_000)

    async def fill(self, queue: str, size: int, *, keys: int = 0, delay_ms: int = 0) -> None:
        """So many more jobs are in the queue."""
        for start in range(0, size, CHUNK):
            jobs = [
                NewJob(
                    id=new_id(), task="noop", payload=b'{"data":"' + b"x" * 100 + b'"}', delay_ms=delay_ms,
                    result_ttl_ms=DAY_MS,
                    key=f"key-{number % keys}" if keys else None,
                )
                for number in range(start, min(size, start + CHUNK))
            ]  # fmt: skip
            await self.store.enqueue(queue, jobs)

    async def drain(self, queue: str) -> float:
        """All that wait in the queue are done; return how many a second."""
        done: list[Complete] = []
        count, begin = 0, time.perf_counter()
        while True:
            turn = await self.store.settle_and_claim(self.session, done, (queue,), ROOM)
            done = [Complete(job.lease, b"null") for job in turn.claimed]
            count += len(done)
            if not done:
                return count / (time.perf_counter() - begin)

    async def look_ms(self) -> float:
        """Return what a look at all queues takes, at the median."""
        samples = []
        for _ in range(LOOKS):
            begin = time.perf_counter()
            await self.store.queues()
            samples.append((time.perf_counter() - begin) * 1000)
        return statistics.median(samples)

    async def measure(self, size: int) -> Found:
        """Return what a backlog of this size finds."""
        await self.fill("q", size)
        backlog = await self.look_ms()
        speed = await self.drain("q")
        return Found(speed, backlog, await self.look_ms())

    async def age(self, kept: int) -> None:
        """The store has a past: kept jobs, keys, delayed jobs, and statistics from the worst of moments."""
        await self.fill("keyed", kept // 4, keys=100)
        await self.drain("keyed")
        await self.fill("later", kept // 4, delay_ms=DAY_MS)
        await self.fill("q", kept)
        await self.analyze("ready")
        await self.drain("q")
        await self.analyze("job")

    async def analyze(self, table: str) -> None:
        """What autovacuum does by itself sooner or later."""
        if self.url.startswith("postgres"):
            async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
                await connection.execute(f"ANALYZE holdfast.{table}".encode())


async def measure(url: str, size: int, kept: int) -> tuple[Found, Found]:
    """Return what was found on a new store, and on the same with a past."""
    store = open_store(url)
    await store.open()
    try:
        run = Run(store, url)
        await store.register(run.session)
        await run.measure(CHUNK)  # connections, plans and pages are warm
        new = await run.measure(size)
        await run.age(kept)
        return new, await run.measure(size)
    finally:
        await store.close()


def main() -> None:
    """What was asked for is measured and shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("postgres", "redis", "sqlite"), default="postgres")
    parser.add_argument("--jobs", type=int, default=20_000, help="the backlog")
    parser.add_argument("--kept", type=int, default=20_000, help="the finished jobs that are kept")
    parser.add_argument("--json", type=Path, help="write every figure here")
    options = parser.parse_args()
    place = stock_postgres() if options.store == "postgres" else None
    with tempfile.TemporaryDirectory() as folder, place or places.STORES[options.store](Path(folder)) as found:
        url = f"sqlite:///{found}" if options.store == "sqlite" else found
        new, aged = asyncio.run(measure(url, options.jobs, options.kept))
    show(options.store, options.jobs, new, aged)
    if options.json:
        options.json.write_text(json.dumps({"new": asdict(new), "aged": asdict(aged)}, indent=2) + "\n")


def show(store: str, jobs: int, new: Found, aged: Found) -> None:
    """Print the table, with its target and verdict."""
    console = Console()
    table = Table("", "new", "aged", "ratio", title=f"{store}: a backlog of {jobs:,}")
    for name, field in (("drain, jobs/s", "drain"), ("queues() with the backlog, ms", "backlog_ms"),
                        ("queues() when idle, ms", "idle_ms")):  # fmt: skip
        ours, theirs = getattr(new, field), getattr(aged, field)
        table.add_row(name, f"{ours:,.1f}", f"{theirs:,.1f}", f"{theirs / ours:.2f}")
    console.print(table)
    share = aged.drain / new.drain
    word = "[green]pass[/]" if share >= LEAST else "[red]fail[/]"
    console.print(f"aged drain >= {LEAST} x of the new: {share:.2f} x, {word}")


if __name__ == "__main__":
    main()
