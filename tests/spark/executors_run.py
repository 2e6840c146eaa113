"""Sink, map, fleet and lake with executors in processes of their own, one of which is killed on the way; prints JSON.

`test_executors.py` runs it: a process has one Spark session, and the other tests have theirs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pyspark
from lake_check import check, check_store
from lean_spark import LEAN
from pyspark.sql import SparkSession
from spark_shop import Shop
from support import until

from holdfast.spark import fleet, map, report, session
from holdfast.spark.lake import Lake
from holdfast.spark.records import RECORDS

PATIENCE = 150.0
ROWS = 2000


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
        ledger = shop.folder / "started"
        until(lambda: ledger.exists() and len(ledger.read_text().split()) >= 4, patience=PATIENCE)
        (worker,) = shop.sync(shop.app.workers())
        os.kill(executor_of(worker.session.pid), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{worker.session.pid}").exists(), patience=PATIENCE)
        shop.open_gate()

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


def executors(spark: SparkSession) -> list[int]:
    """Return the executors of this application."""
    words = (b"CoarseGrainedExecutorBackend", spark.sparkContext.applicationId.encode())
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            line = each.read_bytes()
            found += [int(each.parent.name)] if all(word in line for word in words) else []
    return found


def is_at_work(spark: SparkSession) -> bool:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return any(stage is not None and stage.numActiveTasks for stage in stages)


def lake_with_killed_executors(spark: SparkSession, shop: Shop) -> dict[str, Any]:
    """An executor is killed while events are read, and another while tables are made of them."""
    killers: list[threading.Thread] = []

    def kill() -> None:
        until(lambda: is_at_work(spark), patience=PATIENCE)
        os.kill(until(lambda: executors(spark), patience=PATIENCE)[0], signal.SIGKILL)

    def reached(point: str) -> None:
        if point in ("planned", "events committed"):
            killers.append(threading.Thread(target=kill))
            killers[-1].start()

    lake = Lake(shop.folder / "lake", shop.app, spark, reached)
    done = lake.read_new()
    for killer in killers:
        killer.join()
    assert done is not None
    events = list(shop.app.sync.each(shop.app.events()))
    check(lake.path, events)
    check_store(lake.path, [*shop.jobs("numbers").values(), *shop.jobs("slow").values(), *shop.jobs(RECORDS).values()])
    return {
        "killed": len(killers),
        "all": done.events == len(events),
        "missing": done.missing,
        "after": lake.read_new(),
    }


def main(folder: Path) -> None:
    shop = Shop(folder, f"sqlite:///{folder}/jobs.db")
    conf = {**LEAN, "spark.executor.memory": "512m", "spark.local.dir": str(folder)}
    spark = session("local-cluster[2,1,1024]", conf=conf, log_level="off")
    works = Path(os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent)), "work")
    work = works / str(spark.sparkContext.applicationId)
    try:
        print(json.dumps({"write": write_with_a_killed_worker(spark, shop)}))
        print(json.dumps({"map": map_with_a_killed_executor(spark, shop)}))
        print(json.dumps({"lake": lake_with_killed_executors(spark, shop)}))
    finally:
        spark.stop()
        shop.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
