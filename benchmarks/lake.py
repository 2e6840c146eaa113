"""python -m benchmarks.lake: a lake run beside its floor, increments by length of history, a drain beside a run."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table as Shown

from holdfast import Holdfast
from holdfast.spark import session
from holdfast.spark.lake import Lake, follow
from holdfast.spark.lake.frames import from_sql
from holdfast.spark.lake.lake import AT_ONCE
from holdfast.spark.lake.schemas import ATTEMPTS, JOBS

KEYS = 20
TARGETS = {"lake run, times the floor": 2.0, "increment on ten times the history": 1.2, "drain beside a lake run": 0.9}


@click.command()
@click.option("--events", type=click.IntRange(30_000), default=1_000_000, show_default=True)
@click.option("--step", type=click.IntRange(3000), default=30_000, show_default=True, help="Events of an increment.")
@click.option("--cores", type=click.IntRange(1), default=2, show_default=True, help="Spark's, as local[N].")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="The best of so many counts.")
@click.option("--drain/--no-drain", default=True, help="Measure a drain with and without a lake run beside it, too.")
def main(events: int, step: int, cores: int, rounds: int, drain: bool) -> None:
    """Measure on a SQLite store with the events of no-op jobs, three each."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        bench = Bench(Path(name), cores, rounds)
        figures = bench.increments(events, step)
        figures |= bench.whole()
        bench.close()
        if drain:
            figures |= Beside(Path(name), cores, events // 6).measure()
        _show(figures)


class Bench:
    """A store, a session, and lakes of the one made by the other."""

    def __init__(self, folder: Path, cores: int, rounds: int) -> None:
        self._folder = folder
        self._rounds = rounds
        self._url = f"sqlite:///{folder}/jobs.db?history=100000000"
        self._app = Holdfast(self._url)
        self._app.sync.__enter__()
        self._spark = session(f"local[{cores}]", conf={"spark.driver.memory": "3g"})
        self._events = 0

    def close(self) -> None:
        """The session has ended."""
        self._app.sync.close()
        self._spark.stop()

    def _fill(self, events: int) -> None:
        fill(self._url, events // 3)
        self._events += events // 3 * 3

    def _caught_up(self, name: str) -> Lake:
        lake = Lake(self._folder / name, self._app, self._spark)
        follow(lake, None, lambda done: None)
        return lake

    def increments(self, events: int, step: int) -> dict[str, float]:
        """Return how long an update takes, with little history and with ten times as much."""
        self._fill(events // 10)
        lake = self._caught_up("lake")
        for _ in range(3):  # the first ones are slow: Java compiles
            self._increment(lake, step)
        short = min(self._increment(lake, step) for _ in range(self._rounds))
        self._fill(events - self._events)
        lake = self._caught_up("lake")
        long = min(self._increment(lake, step) for _ in range(self._rounds))
        return {
            f"increment of {step:,} events, {events // 10:,} before, s": short,
            f"the same, {events:,} before, s": long,
            "increment on ten times the history": long / short,
        }

    def _increment(self, lake: Lake, step: int) -> float:
        self._fill(step)
        return timed(follow, lake, None, lambda done: None)

    def whole(self) -> dict[str, float]:
        """Return how long a lake run over everything takes, and Spark on the same rows from Parquet."""
        parquet = str(self._folder / "rows.parquet")
        self._spark.read.format("holdfast").option("url", self._url).load().write.parquet(parquet)
        runs, floors, reads = [], [], []
        for number in range(self._rounds):
            reads.append(timed(self._bronze, number))
            floors.append(timed(self._floor, parquet))
            runs.append(timed(self._caught_up, f"lake-{number}"))
            shutil.rmtree(self._folder / f"lake-{number}")
        million = 1e6 / self._events
        return {
            "store to Parquet, s per million events": min(reads) * million,
            "lake run, s per million events": min(runs) * million,
            "floor, s per million events": min(floors) * million,
            "lake run, times the floor": min(runs) / min(floors),
        }

    def _bronze(self, number: int) -> None:
        rows = self._spark.read.format("holdfast").option("url", self._url).load()
        rows.write.parquet(str(self._folder / f"bronze-{number}.parquet"))
        shutil.rmtree(self._folder / f"bronze-{number}.parquet")

    def _floor(self, parquet: str) -> None:
        """The same rows, from Parquet, through the same SQL; nothing is kept."""
        rows = self._spark.read.parquet(parquet)
        told = rows.selectExpr("*", "date_trunc('minute', at) AS minute")
        tenants = from_sql(self._spark, "tenants", told=told)
        silver = [
            from_sql(self._spark, shape.name, batch=rows, known=self._nothing(shape)) for shape in (ATTEMPTS, JOBS)
        ]
        gold = [
            tenants,
            from_sql(self._spark, "errors", told=told),
            from_sql(self._spark, "minutes", told=told, tenants=tenants),
            from_sql(self._spark, "workers", batch=rows),
        ]  # fmt: skip
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = [pool.submit(_noop, frame) for frame in silver] + [pool.submit(_arrow, frame) for frame in gold]
            for each in waiting:
                each.result()

    def _nothing(self, shape: Any) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        return self._spark.createDataFrame([], from_arrow_schema(shape.arrow))


def _noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _arrow(frame: Any) -> None:
    frame.toArrow()


class Beside:
    """A drain, alone and beside a lake run that follows it."""

    def __init__(self, folder: Path, cores: int, jobs: int) -> None:
        self._folder = folder
        self._cores = cores
        self._jobs = jobs

    def measure(self) -> dict[str, float]:
        """Return jobs per second of both, and their ratio."""
        alone = self._drain("alone")
        beside = self._drain("beside", follow_it=True)
        return {"drain alone, jobs/s": alone, "beside, jobs/s": beside, "drain beside a lake run": beside / alone}

    def _drain(self, name: str, follow_it: bool = False) -> float:
        url = f"sqlite:///{self._folder}/{name}.db"
        asyncio.run(_enqueue(url, self._jobs))
        lake = None
        if follow_it:
            words = ["lake", "run", "--url", url, "--path", str(self._folder / name), "--every", "1s"]
            words += ["--master", f"local[{self._cores}]"]
            lake = subprocess.Popen([sys.executable, "-m", "holdfast", *words], stdout=subprocess.PIPE, text=True)
            assert lake.stdout is not None
            lake.stdout.readline()  # it has told of its first batch, and looks on
        seconds = timed(asyncio.run, _work(url))
        if lake is not None:
            lake.terminate()
            lake.communicate(timeout=120)
        return self._jobs / seconds


def timed(work: Callable[..., object], *arguments: object) -> float:
    """Return how many seconds it takes."""
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def fill(url: str, jobs: int) -> None:
    """So many more jobs have run."""
    asyncio.run(_enqueue(url, jobs))
    asyncio.run(_work(url))


def _app(url: str) -> tuple[Holdfast, Any]:
    app = Holdfast(url)

    @app.task(queue="bench", result_ttl=0)
    async def noop(text: str) -> None:
        """Nothing is to be done."""

    return app, noop


async def _enqueue(url: str, jobs: int) -> None:
    app, noop = _app(url)
    async with app:
        keyed = [noop.options(key=f"tenant-{number}") for number in range(KEYS)]
        await app.enqueue_many(keyed[number % KEYS].args("x" * 90) for number in range(jobs))


async def _work(url: str) -> None:
    app, _ = _app(url)
    async with app:
        await app.worker(["bench"], slots=100).run(burst=True)


def _show(figures: dict[str, float]) -> None:
    table = Shown(title="the lake, on SQLite; best of the rounds")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("target", justify="right")
    for name, value in figures.items():
        target = TARGETS.get(name)
        sign = "at least" if name.startswith("drain beside") else "at most"
        table.add_row(name, f"{value:,.2f}", "" if target is None else f"{sign} {target:g}")
    Console().print(table)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.lake")
