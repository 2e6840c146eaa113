"""Sink, map and fleet with executors in processes of their own, one of which is killed on the way; prints JSON.

`test_executors.py` runs it: a process has one Spark session, and the other tests have theirs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from spark_shop import Shop

from holdfast.spark import fleet, map, report, session

PATIENCE = 150.0
ROWS = 2000


def until(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := check()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def executor_of(pid: int) -> int:
    """Return the executor whose Python worker this is."""
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def write_with_a_killed_worker(spark: SparkSession, shop: Shop) -> dict[str, Any]:
    """The Python worker of one partition is killed after some of its rows are in."""
    (shop.folder / "deadly").write_text(str(ROWS // 2 - 1))
    rows = spark.range(ROWS, numPartitions=2).selectExpr("id AS number")
    options = {"app": shop.target, "task": "double", "name": "numbers", "chunk": "100"}
    rows.write.format("holdfast").mode("append").options(**options).save()
    told = report("numbers", shop.url)
    assert told is not None
    jobs = shop.jobs("numbers")
    events = shop.sync(_enqueued(shop))
    numbers = sorted(json.loads(job.payload)["number"] for job in jobs.values())
    return {
        "killed": (shop.folder / "killed").exists(), "rows": told.rows, "duplicate": told.duplicate,
        "once": numbers == list(range(ROWS)), "enqueued": events,
    }  # fmt: skip


async def _enqueued(shop: Shop) -> int:
    found = [event async for event in shop.app.events(queue="numbers") if event.transition == "enqueue"]
    return len(found)


def map_with_a_killed_executor(spark: SparkSession, shop: Shop) -> dict[str, Any]:
    """The executor that hosts the only worker is killed while its handlers run."""

    def kill() -> None:
        until(lambda: (shop.folder / "started").exists() and len((shop.folder / "started").read_text().split()) >= 4)
        (worker,) = shop.sync(shop.app.workers())
        os.kill(executor_of(worker.session.pid), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{worker.session.pid}").exists())
        (shop.folder / "open").touch()

    with fleet(shop.target, spark=spark, queues=["slow"], workers=1, slots=4, lease=2) as crew:
        killer = threading.Thread(target=kill)
        killer.start()
        rows = spark.range(40).selectExpr("id AS number")
        found = map(rows, shop.wait, app=shop.target, name="slow", timeout=PATIENCE)
        killer.join()
        done = crew.drain()
    results = {row.number: row.result for row in found.collect()}
    stalls = sum(job.counters.stalls for job in shop.jobs("slow").values())
    return {"right": results == {n: n for n in range(40)}, "stalls": stalls, "workers": len(done)}


def main(folder: Path) -> None:
    shop = Shop(folder, f"sqlite:///{folder}/jobs.db")
    conf = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder)}
    spark = session("local-cluster[2,1,1024]", conf=conf, log_level="off")
    works = Path(os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent)), "work")
    work = works / str(spark.sparkContext.applicationId)
    try:
        print(json.dumps({"write": write_with_a_killed_worker(spark, shop)}))
        print(json.dumps({"map": map_with_a_killed_executor(spark, shop)}))
    finally:
        spark.stop()
        shop.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
