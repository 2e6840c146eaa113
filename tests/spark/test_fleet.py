"""Workers as Spark tasks: they drain, stop and die like other workers."""

from __future__ import annotations

import json
import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from spark_shop import Shop
from support import until

from holdfast.cli.root import cli
from holdfast.core.state import State
from holdfast.errors import ConfigError, StoreError
from holdfast.spark import fleet, map, refuse_remote, write
from holdfast.spark.fleet.fleet import Fleet
from holdfast.spark.fleet.worker import listen_seconds

PATIENCE = 60.0


def start(spark: SparkSession, shop: Shop, **options: Any) -> Fleet:
    """Return a fleet of two whose handlers wait, with two jobs each."""
    shop.sync(shop.app.enqueue_many(shop.wait.args(number) for number in range(20)))
    made = fleet(shop.target, spark=spark, queues=["slow"], workers=2, slots=2, **options)
    until(lambda: len(started(shop)) == 4, patience=PATIENCE)
    return made


def started(shop: Shop) -> list[int]:
    ledger = shop.folder / "started"
    return [int(line) for line in ledger.read_text().split()] if ledger.exists() else []


def pids(shop: Shop) -> list[int]:
    return [each.session.pid for each in shop.sync(shop.app.workers()) if each.alive]


def test_the_jobs_of_a_killed_task_are_finished_elsewhere(spark: SparkSession, shop: Shop) -> None:
    made = start(spark, shop, lease=1, name="crew")
    os.kill(pids(shop)[0], signal.SIGKILL)
    shop.open_gate()
    reports = made.drain()
    assert {job.state for job in shop.jobs("slow").values()} == {State.COMPLETED}
    assert sum(job.counters.stalls for job in shop.jobs("slow").values()) == 2
    assert [report.name for report in reports] == ["crew-1", "crew-2"]
    assert sum(report.restarts for report in reports) == 1
    assert made.stop() == reports, "stopping twice is stopping once"


def test_a_stop_hands_back_what_does_not_end(spark: SparkSession, shop: Shop) -> None:
    with start(spark, shop, drain=0) as made:
        assert made.running
    assert not made.running
    states = [job.state for job in shop.jobs("slow").values()]
    assert states == [State.WAITING] * 20
    assert sum(job.counters.releases for job in shop.jobs("slow").values()) == 4
    assert shop.sync(shop.app.workers()) == []


def test_the_command_drains_and_reports(spark: SparkSession, shop: Shop) -> None:
    shop.sync(shop.app.enqueue_many(shop.double.args(number) for number in range(50)))
    words = ["worker", shop.target, "--on", "spark", "--queues", "numbers", "--workers", "2", "--json", "--drain"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["started", "stopped", "stopped"]
    assert sum(line["did"]["completed"] for line in lines[1:]) == 50


def test_what_cannot_be_a_fleet_is_refused(spark: SparkSession, shop: Shop) -> None:
    with pytest.raises(ConfigError, match="workers=0: a whole number from 1"):
        fleet(shop.target, spark=spark, workers=0)
    with pytest.raises(ConfigError, match="that is Spark's; give --on spark, too"):
        cli.main(["worker", shop.target, "--master", "local[2]"], standalone_mode=False)

    class Remote:
        class sparkContext:
            master = "spark://head:7077"

    with pytest.raises(ConfigError, match="is a file of this machine"):
        refuse_remote(shop.url, Remote())  # type: ignore[arg-type]


def test_rows_that_would_wait_for_a_core_of_a_fleet_are_refused(spark: SparkSession, shop: Shop) -> None:
    df = spark.range(8).selectExpr("id AS number")
    with fleet(shop.target, spark=spark, queues=["numbers"], workers=2):
        with pytest.raises(ConfigError, match="write 'm': a fleet of 2 workers keeps all 2 cores of this Spark"):
            map(df, shop.double, app=shop.target, name="m")
        with pytest.raises(ConfigError, match="give it fewer workers, or Spark more cores"):
            write(df, shop.double, app=shop.target, name="w")
    with fleet(shop.target, spark=spark, queues=["numbers"], workers=1):
        found = map(df, shop.double, app=shop.target, name="m", timeout=60).collect()
    assert sorted(row.result for row in found) == [number * 2 for number in range(8)]


def test_a_fleet_in_a_hurry_does_not_wait_for_its_handlers(spark: SparkSession, shop: Shop) -> None:
    made = start(spark, shop, drain=600)
    made.ask_to_stop()
    assert made.running
    made.hurry()
    assert sum(report.did.released for report in made.stop()) == 4
    assert not made.running


def test_options_that_workers_on_spark_lack_are_refused(shop: Shop) -> None:
    for words in (["--pool", "2"], ["--recycle-jobs", "9"], ["--on-stuck", "exit"], ["--no-guard"], ["--uvloop"]):
        with pytest.raises(ConfigError, match=f"{words[0]}: workers on Spark have none of it; leave it out"):
            cli.main(["worker", shop.target, "--on", "spark", *words], standalone_mode=False)


def test_a_store_that_is_not_there_is_told_before_spark_starts(
    tmp_path: Path, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(master: str | None) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(import_module("holdfast.spark.fleet.fleet"), "any_session", session)
    shop = Shop(tmp_path, f"redis://127.0.0.1:{closed}?retry_for=0")
    with pytest.raises(StoreError, match=f"127.0.0.1:{closed} cannot be reached"):
        fleet(shop.target)
    shop.close()


def test_a_small_fleet_asks_often_whether_to_stop_and_a_large_one_spares_the_store() -> None:
    assert [listen_seconds(workers) for workers in (1, 2, 5, 10, 1000)] == [0.1, 0.1, 0.25, 0.5, 0.5]
