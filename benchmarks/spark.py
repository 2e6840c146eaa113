"""python -m benchmarks.spark: Spark reading the log, beside a bare Python reader of it and Spark reading Parquet."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.processor import whole_time
from benchmarks.store import STORES
from holdfast import Holdfast
from holdfast.spark import session
from holdfast.store.scan import open_scan

PAGE = 20_000
URLS = {"sqlite": "sqlite:///{}", "redis": "{}", "postgres": "{}"}


@click.command()
@click.option("--store", type=click.Choice(sorted(STORES)), default="sqlite", show_default=True)
@click.option("--events", type=click.IntRange(1000), default=1_000_000, show_default=True)
@click.option("--cores", type=click.IntRange(1), default=2, show_default=True, help="Spark's, as local[N].")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Of which the medians count.")
def main(store: str, events: int, cores: int, rounds: int) -> None:
    """Fill a log with the events of no-op jobs, and read all of it in three ways, in turn."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, STORES[store](Path(name)) as place:
        url = URLS[store].format(place)
        jobs = events // 3
        click.echo(f"{jobs:,} jobs, three events each", err=True)
        asyncio.run(_fill(url, jobs))
        ways = _ways(store, url, Path(name), cores)
        found: dict[str, list[Reading]] = {way: [] for way in ways}
        for number in range(rounds + 1):
            for way, read in ways.items():
                reading = Reading.of(read)
                click.echo(f"round {number}: {way}: {reading}", err=True)
                if number:  # in the first round Java compiles
                    found[way].append(reading)
        _show(store, cores, found)


@dataclass(frozen=True)
class Reading:
    """What it took to read an event, in microseconds: of the clock, and of all processors together."""

    clock: float
    processor: float

    @classmethod
    def of(cls, read: Callable[[], int]) -> Reading:
        """Read everything, and return what an event took."""
        began, spent = time.perf_counter(), whole_time()
        count = read()
        return cls(1e6 * (time.perf_counter() - began) / count, 1e6 * (whole_time() - spent) / count)


async def _fill(url: str, jobs: int) -> None:
    app = Holdfast(url)

    @app.task(queue="bench", result_ttl=0)
    async def noop(text: str) -> None:
        """Nothing is to be done."""

    async with app:
        await noop.enqueue_many(noop.args("x" * 90) for _ in range(jobs))
        await app.worker(["bench"], slots=100).run(burst=True)


def _ways(store: str, url: str, folder: Path, cores: int) -> dict[str, Callable[[], int]]:
    spark = session(f"local[{cores}]", conf={"spark.driver.memory": "2g"})
    source = spark.read.format("holdfast").options(url=url, table="events", partitions=str(cores * 4)).load()
    parquet = str(folder / "events.parquet")
    source.write.parquet(parquet)
    rows = spark.read.parquet(parquet).count()

    def through(frame: Any) -> Callable[[], int]:
        def read() -> int:
            frame.write.format("noop").mode("overwrite").save()
            return int(rows)

        return read

    return {
        "bare Python": lambda: sum(_BARE[store](url)),
        "scan into Arrow": lambda: _scan(url),
        "Spark, source": through(source),
        "Spark, Parquet": through(spark.read.parquet(parquet)),
    }


def _bare_sqlite(url: str) -> Iterator[int]:
    connection, last = sqlite3.connect(url.removeprefix("sqlite:///")), 0
    while rows := connection.execute(f"SELECT * FROM holdfast_event WHERE seq > {last} LIMIT {PAGE}").fetchall():
        last = rows[-1][0]
        yield len(rows)
    connection.close()


def _bare_redis(url: str) -> Iterator[int]:
    import redis

    client, last = redis.Redis.from_url(url), b"-"
    while rows := client.xrange("{holdfast:bench}:events", last, "+", count=PAGE):
        last = b"(" + rows[-1][0]
        yield len(rows)
    client.close()


def _bare_postgres(url: str) -> Iterator[int]:
    import psycopg

    with psycopg.connect(url.partition("?")[0]) as connection, connection.cursor("bare") as cursor:
        cursor.execute("SELECT * FROM holdfast.event ORDER BY xid, seq")
        while rows := cursor.fetchmany(PAGE):
            yield len(rows)


_BARE: dict[str, Callable[[str], Iterator[int]]] = {
    "sqlite": _bare_sqlite,
    "redis": _bare_redis,
    "postgres": _bare_postgres,
}


def _scan(url: str) -> int:
    """Return how many events one process reads into Arrow, which is what each of Spark's does."""
    from holdfast.spark.read.arrow import batch, stored_columns
    from holdfast.store.scan import ScanPlan

    scan, plan = open_scan(url), ScanPlan(table="events", columns=stored_columns("events"))
    count = sum(len(batch("events", columns)) for part in scan.plan(plan) for columns in scan.read(plan, part))
    scan.close()
    return count


def _show(store: str, cores: int, found: dict[str, list[Reading]]) -> None:
    table = Table(title=f"{store}, local[{cores}], medians of the rounds, microseconds for an event")
    table.add_column("way")
    table.add_column("clock", justify="right")
    table.add_column("processor", justify="right")
    table.add_column("of bare Python, by processor", justify="right")
    bare = [each.processor for each in found["bare Python"]]
    for way, readings in found.items():
        clock = statistics.median(each.clock for each in readings)
        processor = statistics.median(each.processor for each in readings)
        ratio = statistics.median(a / b.processor for a, b in zip(bare, readings, strict=True))
        table.add_row(way, f"{clock:.2f}", f"{processor:.2f}", f"{ratio:.2f}")
    console = Console()
    console.print(table)
    console.print("target: the source has 0.7 of a bare reader's speed for each core that it keeps busy")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.spark")
