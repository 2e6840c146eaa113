"""python -m benchmarks.spark: Spark reading the log, beside a bare Python reader of it and Spark reading Parquet."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

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
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="The best of so many counts.")
def main(store: str, events: int, cores: int, rounds: int) -> None:
    """Fill a log with the events of no-op jobs, and read all of it in three ways, in turn."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, STORES[store](Path(name)) as place:
        url = URLS[store].format(place)
        jobs = events // 3
        click.echo(f"{jobs:,} jobs, three events each", err=True)
        asyncio.run(_fill(url, jobs))
        ways = _ways(store, url, Path(name), cores)
        best = dict.fromkeys(ways, 0.0)
        for number in range(rounds):
            for way, read in ways.items():
                began = time.perf_counter()
                count = read()
                best[way] = max(best[way], count / (time.perf_counter() - began))
                click.echo(f"round {number + 1}: {way}", err=True)
        _show(store, cores, best)


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
    from holdfast.store.scan import Plan

    scan, plan = open_scan(url), Plan(table="events", columns=stored_columns("events"))
    count = sum(len(batch("events", columns)) for part in scan.plan(plan) for columns in scan.read(plan, part))
    scan.close()
    return count


def _show(store: str, cores: int, best: dict[str, float]) -> None:
    table = Table(title=f"{store}, local[{cores}], best of the rounds")
    table.add_column("way")
    table.add_column("events/s", justify="right")
    table.add_column("s per million", justify="right")
    for way, speed in best.items():
        table.add_row(way, f"{speed:,.0f}", f"{1e6 / speed:.1f}")
    share = best["Spark, source"] / cores / best["bare Python"]
    scan = best["scan into Arrow"] / best["bare Python"]
    console = Console()
    console.print(table)
    console.print(f"source, per core of Spark's: {share:.2f} x bare Python; one scan: {scan:.2f} x (target 0.5)")
    console.print(f"source: {best['Spark, source']:,.0f} events/s (target 200,000 from some store)")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.spark")
