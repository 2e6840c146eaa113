"""The curve: what enqueue, claim and settle cost the more jobs wait.

    python -m benchmarks.curve [--store sqlite|redis|postgres] [--most 1000000] [--keys 10000] [--json FILE]

From 1,000 waiting jobs, ten times more in each step, to --most; with and without keys. The calls are interleaved, so
that a noisy machine is equally noisy to all. Times are medians of single calls (one job each) through the store. Beside
them stands what the call cost the store itself: on SQLite instructions of its virtual machine, which count the rows
that are touched; on Redis microseconds that the server spent in our function (INFO commandstats); on PostgreSQL those
that its processes were running.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import store as places
from benchmarks.meter import Meter, PostgresTime, RedisTime, SqliteSteps
from holdfast.client import new_id
from holdfast.store.contract import Claimed, Complete, NewJob, Session, Store

SMALLEST = 1_000
CHUNK = 2_000
NEWS = 5.0
"""Seconds between two lines about a long filling."""
MOST_WITH_KEYS = 1_000_000
CALLS = ("enqueue", "claim", "settle")
FLAT = 1.5
"""A claim is called flat if it costs at most so many times what it cost with the fewest jobs."""


class Field:
    """One queue with so many waiting jobs, and the costs of calls on it."""

    def __init__(self, store: Store, meter: Meter, size: int, keys: int) -> None:
        self.size = size
        self.keys = keys
        self._store = store
        self._meter = meter
        self._queue = f"q-{size}-{keys}"
        self._session = Session(
            id=new_id(), name="curve", host="-", pid=0, queues=(self._queue,), lease_ms=36_000_000
        )  # fmt: skip
        self.ms: dict[str, list[float]] = {name: [] for name in CALLS}
        self.cost: dict[str, list[float]] = {name: [] for name in CALLS}
        self._next = 0

    async def fill(self, console: Console) -> None:
        """The jobs wait."""
        began = told = time.monotonic()
        while self._next < self.size:
            count = min(CHUNK, self.size - self._next)
            await self._store.enqueue(self._queue, [self._job() for _ in range(count)])
            if time.monotonic() - told > NEWS or self._next == self.size:
                told = time.monotonic()
                rate = self._next / (told - began)
                console.print(f"{self._next:,} of {self.size:,} wait, {self.keys:,} keys ({rate:,.0f}/s)", style="dim")
        await self._store.register(self._session)

    def _job(self) -> NewJob:
        self._next += 1
        key = f"tenant-{self._next % self.keys}" if self.keys else None
        return NewJob(id=new_id(), task="noop", payload=b'{"data":"' + b"x" * 100 + b'"}', fresh=True, key=key)

    async def round(self) -> None:
        """One job comes, one is claimed, one is settled."""
        await self._timed("enqueue", lambda: self._store.enqueue(self._queue, [self._job()]))
        claimed: list[Claimed] = (await self._timed("claim", lambda: self._turn([], 1))).claimed
        await self._timed("settle", lambda: self._turn([Complete(job.lease, b"null") for job in claimed], 0))

    async def _turn(self, done: list[Complete], room: int) -> Any:
        return await self._store.settle_and_claim(self._session, done, [self._queue], room)

    async def _timed(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        await self._meter.start()
        begin = time.perf_counter()
        answer = await call()
        self.ms[name].append((time.perf_counter() - begin) * 1000)
        self.cost[name].append(await self._meter.read())
        return answer


Plots = list[tuple[int, int]]
"""Sizes and keys."""


@asynccontextmanager
async def on_sqlite(folder: Path, plots: Plots) -> AsyncIterator[list[Field]]:
    """One database for each field."""
    from holdfast.store.sqlite import SqliteStore

    fields, stores = [], []
    for size, keys in plots:
        store = SqliteStore(f"sqlite:///{folder}/{size}-{keys}.db")
        await store.open()
        stores.append(store)
        fields.append(Field(store, SqliteSteps(store.database.writer.connection), size, keys))
    yield fields
    for store in stores:
        await store.close()


@asynccontextmanager
async def on_redis(folder: Path, plots: Plots) -> AsyncIterator[list[Field]]:
    """One server, one queue for each field."""
    import redis.asyncio

    from holdfast.store.redis import RedisStore

    with places.redis(folder) as url:
        store, client = RedisStore(url), redis.asyncio.Redis.from_url(url)
        await store.open()
        yield [Field(store, RedisTime(client), size, keys) for size, keys in plots]
        await client.aclose()
        await store.close()


@asynccontextmanager
async def on_postgres(folder: Path, plots: Plots) -> AsyncIterator[list[Field]]:
    """One server, one queue for each field."""
    from holdfast.store.postgres import PostgresStore

    with places.postgres(folder) as url:
        store = PostgresStore(url)
        await store.open()
        yield [Field(store, PostgresTime(places.PIDS[url]), size, keys) for size, keys in plots]
        await store.close()


STORES = {"sqlite": on_sqlite, "redis": on_redis, "postgres": on_postgres}


async def measure(store: str, plots: Plots, calls: int, console: Console) -> tuple[list[Field], str]:
    """Return the fields, each with its costs, and what the costs are counted in."""
    with tempfile.TemporaryDirectory() as folder:
        async with STORES[store](Path(folder), plots) as fields:
            for field in fields:
                await field.fill(console)
            console.print(f"{calls} rounds", style="dim")
            for _ in range(calls):
                for field in fields:
                    await field.round()
            return fields, fields[0]._meter.unit


def plots(most: int, keys: int) -> Plots:
    """Every size without keys, and with keys as far as that is worth its memory."""
    sizes = [SMALLEST]
    while sizes[-1] * 10 <= most:
        sizes.append(sizes[-1] * 10)
    return [(size, 0) for size in sizes] + [(size, keys) for size in sizes if keys and size <= MOST_WITH_KEYS]


def growth(field: Field, fields: list[Field]) -> float:
    """What a claim costs the store, beside the smallest field with as many keys; 1 where it costs nothing countable."""
    base = min((each for each in fields if each.keys == field.keys), key=lambda each: each.size)
    below = statistics.median(base.cost["claim"])
    return statistics.median(field.cost["claim"]) / below if below else 1.0


def table(fields: list[Field], unit: str) -> Table:
    """Return the curve as a table."""
    heads = (*(f"{name}, ms" for name in CALLS), *(f"{name}, {unit}" for name in CALLS))
    shown = Table("waiting", "keys", *heads, "claim beside the fewest", "verdict")
    for field in fields:
        times = [f"{statistics.median(field.ms[name]):.3f}" for name in CALLS]
        costs = [f"{statistics.median(field.cost[name]):.2f}" for name in CALLS]
        grown = growth(field, fields)
        word = "[green]flat[/]" if grown <= FLAT else "[red]grows[/]"
        shown.add_row(f"{field.size:,}", f"{field.keys:,}", *times, *costs, f"{grown:.2f} x", word)
    return shown


def as_json(field: Field, fields: list[Field], unit: str) -> dict[str, Any]:
    """The medians of one field."""
    return {
        "waiting": field.size,
        "keys": field.keys,
        "ms": {name: statistics.median(field.ms[name]) for name in CALLS},
        "cost": {name: statistics.median(field.cost[name]) for name in CALLS},
        "cost_unit": unit,
        "claim_growth": growth(field, fields),
    }


def main() -> None:
    """Print the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=sorted(STORES), default="sqlite")
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", type=Path, help="write every median here")
    options = parser.parse_args()
    console = Console()
    console.width = max(console.width, 150)
    fields, unit = asyncio.run(measure(options.store, plots(options.most, options.keys), options.calls, console))
    console.print(table(fields, unit))
    console.print(f"Target: a claim costs the store at most {FLAT} x what it costs with the fewest jobs.", style="dim")
    if options.json:
        options.json.write_text(json.dumps([as_json(field, fields, unit) for field in fields], indent=2) + "\n")


if __name__ == "__main__":
    main()
