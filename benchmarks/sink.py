"""The sink beside `enqueue_many`: `python -m benchmarks.sink [--rows 500000] [--store sqlite|redis|postgres]`.

Both write the same rows to fresh stores of one kind, in turn, in one run, and the ratio is the median over the rounds.
The sink's time is that of the whole write, with its commit; a first small write starts Spark's Python workers.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.system import PAYLOAD
from holdfast import Holdfast

MODULE = "sink_app"
CODE = """
import os
from holdfast import Holdfast
app = Holdfast({url!r})
@app.task(queue="bench")
async def noop(number: int, data: str) -> None: ...
"""


def addresses(store: str, folder: Path) -> Any:
    """Yield the URLs of fresh stores."""
    if store == "sqlite":
        for number in range(1000):
            yield f"sqlite:///{folder}/jobs-{number}.db"
    sys.path.insert(0, "tests")
    import servers

    if store == "redis":
        server = servers.RedisServer(servers.redis_binary() or servers.valkey_binary(), "--appendonly", "no")
        for number in range(1000):
            yield f"{server.url}?namespace=bench{number}"
    server = servers.PostgresServer(("listen_addresses=127.0.0.1",))
    atexit.register(server.close)
    server.start()
    for number in range(1000):
        yield server.url(f"bench{number}")


def many(url: str, rows: int) -> float:
    """Return the seconds that `enqueue_many` takes."""

    async def fill() -> float:
        app = Holdfast(url)

        @app.task(queue="bench")
        async def noop(number: int, data: str) -> None: ...

        async with app:
            began = time.perf_counter()
            counts = await app.enqueue_many(noop.args(number, PAYLOAD) for number in range(rows))
            assert counts.queued == rows
            return time.perf_counter() - began

    return asyncio.run(fill())


def sink(spark: Any, url: str, rows: int, folder: Path, number: int) -> float:
    """Return the seconds that the sink takes, with the signature checked for every row."""
    from holdfast.spark import report

    file = folder / f"{MODULE}_{number}.py"
    file.write_text(CODE.format(url=url))
    asyncio.run(_made(url))
    frame = spark.range(rows).selectExpr("id AS number", f"'{PAYLOAD}' AS data")
    began = time.perf_counter()
    options = {"app": f"{file}:app", "task": "noop", "name": "bench"}
    frame.write.format("holdfast").mode("append").options(**options).save()
    seconds = time.perf_counter() - began
    told = report("bench", url)
    assert told is not None
    assert told.queued == rows
    return seconds


async def _made(url: str) -> None:
    async with Holdfast(url):
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", choices=["sqlite", "redis", "postgres"], default="sqlite")
    given = parser.parse_args()
    from holdfast.spark import session

    spark = session("local[2]")
    ratios = []
    with tempfile.TemporaryDirectory(prefix="holdfast-sink-") as name:
        folder = Path(name)
        urls = addresses(given.store, folder)
        sink(spark, next(urls), 1000, folder, 0)
        for number in range(1, given.rounds + 1):
            plain = many(next(urls), given.rows)
            through = sink(spark, next(urls), given.rows, folder, number)
            ratios.append(plain / through)
            speeds = f"enqueue_many {given.rows / plain:,.0f} rows/s, sink {given.rows / through:,.0f} rows/s"
            print(f"{given.store}: {speeds}, ratio {ratios[-1]:.2f}", flush=True)
    print(f"{given.store}: the sink has {statistics.median(ratios):.2f} of enqueue_many's speed (target: 0.6)")
    spark.stop()


if __name__ == "__main__":
    main()
