"""`holdfast.spark.map`: a DataFrame through the queue, and its results back."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_places import KINDS, fresh, log_of
from spark_shop import Shop
from support import until

from holdfast import Rate
from holdfast.errors import ConfigError, JobTimeout
from holdfast.spark import end_hold, fleet, map, write


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """An app on a fresh store of each kind."""
    made = Shop(tmp_path, fresh(request.param, tmp_path))
    yield made
    made.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Shop]:
    """An app on a file."""
    made = Shop(tmp_path, fresh("sqlite", tmp_path))
    yield made
    made.close()


def test_results_and_errors_come_back_beside_their_rows(spark: SparkSession, shop: Shop) -> None:
    df = spark.createDataFrame(
        [("pear", 2, "x"), ("moon", 1, "y"), ("pear", 2, "z")], "item string, number int, note string"
    )
    found = map(df, shop.quote, app=shop.target, name="prices", columns=["item", "number"], workers=1, slots=5)
    assert found.columns == ["job_id", "item", "number", "note", "state", "attempts", "result", "error"]
    assert found.schema["result"].dataType.simpleString() == "struct<item:string,cents:bigint,tags:array<string>>"
    rows = {row.note: row for row in found.collect()}
    assert rows["x"].result.asDict() == {"item": "pear", "cents": 200, "tags": ["PEAR"]}
    assert rows["x"].job_id == rows["z"].job_id, "alike rows are one job"
    assert (rows["y"].state, rows["y"].result) == ("failed", None)
    assert (rows["y"].error.type, rows["y"].error.message) == ("Permanent", "the moon is not for sale")
    end_hold("prices", shop.url, ttl=0)
    assert [row.state for row in found.where("item = 'pear'").collect()] == [None, None], "read when it is asked for"


def test_the_same_map_again_goes_on_where_it_was(
    spark: SparkSession, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    df = spark.range(60).selectExpr("id AS number")
    with pytest.raises(JobTimeout, match="map 'again': 60 rows were not done in time; they go on"):
        map(df, shop.double, app=shop.target, name="again", timeout=0)
    shop.sync(shop.app.queue("numbers").set(concurrency=1))
    assert shop.burst("numbers").completed == 60
    found = map(df, shop.double, app=shop.target, name="again", timeout=20, progress=True)
    assert "60/60" in capsys.readouterr().err
    assert {row.number: row.result for row in found.collect()} == {n: n * 2 for n in range(60)}
    assert {job.counters.attempts for job in shop.jobs("numbers").values()} == {1}
    assert len(shop.jobs("numbers")) == 60


def test_results_come_as_they_are_made(spark: SparkSession, shop: Shop) -> None:
    df = spark.range(8).selectExpr("id AS number", "concat('n', id) AS note")
    with pytest.raises(JobTimeout):
        map(df.where("number < 3"), shop.double, app=shop.target, name="s", columns=["number"], timeout=0)
    shop.burst("numbers")
    batches = map(df, shop.double, app=shop.target, name="s", columns=["number"], timeout=60, stream=True)
    assert {row.note: row.result for row in next(batches).collect()} == {"n0": 0, "n1": 2, "n2": 4}, "done before"
    shop.burst("numbers")
    rest = [row for batch in batches for row in batch.collect()]
    assert {row.note: row.result for row in rest} == {f"n{n}": n * 2 for n in range(3, 8)}
    assert {(row.state, row.attempts) for row in rest} == {("completed", 1)}
    assert [batch.count() for batch in map(df, shop.double, app=shop.target, name="s", columns=["number"], stream=True)
            ] == [8]  # fmt: skip


def test_a_stream_whose_workers_would_take_every_core_is_refused(spark: SparkSession, small: Shop) -> None:
    df = spark.range(8).selectExpr("id AS number")
    with pytest.raises(ConfigError, match="workers=2 would take all 2 cores of this Spark while results come"):
        map(df, small.double, app=small.target, name="s", workers=2, stream=True)
    assert small.jobs("numbers") == {}
    rows = [row for batch in map(df, small.double, app=small.target, name="s", workers=1, stream=True, timeout=60)
            for row in batch.collect()]  # fmt: skip
    assert sorted((row.number, row.result) for row in rows) == [(number, number * 2) for number in range(8)]


def test_a_stream_waits_for_the_chains_of_its_rows(spark: SparkSession, small: Shop) -> None:
    df = spark.range(3).selectExpr("id AS number")
    with pytest.raises(JobTimeout):
        map(df, small.first, app=small.target, name="c", timeout=0)
    small.burst("chained")
    batches = map(df, small.first, app=small.target, name="c", timeout=60, stream=True)
    assert [row.result for row in next(batches).collect()] == ["none"]
    small.burst("later")
    assert sorted(row.result for batch in batches for row in batch.collect()) == ["1!", "2!"]


def test_two_drivers_of_one_name_share_the_rows(spark: SparkSession, small: Shop) -> None:
    df = spark.range(40).selectExpr("id AS number")

    def drive(_: int) -> dict[int, int]:
        found = map(df, small.double, app=small.target, name="twice", timeout=60)
        return {row.number: row.result for row in found.collect()}

    with fleet(small.target, spark=spark, queues=["numbers"], slots=2), ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(drive, range(2)))
    assert answers == [{number: number * 2 for number in range(40)}] * 2
    assert {job.counters.attempts for job in small.jobs("numbers").values()} == {1}
    assert len(small.jobs("numbers")) == 40


def test_limits_hold_across_executors(spark: SparkSession, small: Shop) -> None:
    small.sync(small.app.queue("keyed").set(key_concurrency=1, rate=Rate(40, burst=10)))
    df = spark.range(30).selectExpr("concat('i', id) AS item", "concat('k', id % 3) AS who")
    small.sync(small.app.queue("keyed").pause())
    write(df, small.keyed, app=small.target, name="limits", key_column="who")
    with fleet(small.target, spark=spark, queues=["keyed"], workers=2, slots=2) as workers:
        until(lambda: sum(each.alive for each in small.sync(small.app.workers())) == 2, "both are there")
        small.sync(small.app.queue("keyed").resume())
        workers.drain()
    events = sorted(
        (event for event in small.sync(log_of(small.app, "keyed")) if event.transition in ("claim", "complete")),
        key=lambda event: event.position,
    )
    running = Counter[str | None]()
    for event in events:
        running[event.key] += 1 if event.transition == "claim" else -1
        assert running[event.key] <= 1, "one at a time of each key, whichever executor has it"
    claims = [event.at_ms for event in events if event.transition == "claim"]
    assert len(claims) == 30
    assert all(at - start >= (index - 10) / 40 * 1000 - 1 for start in claims[:1] for index, at in enumerate(claims))


def test_what_cannot_be_mapped_is_refused(spark: SparkSession, small: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = small
    df = spark.range(1).selectExpr("id AS number", "1 AS result")
    with pytest.raises(ConfigError, match="the column 'result' would be there twice; rename yours first"):
        map(df, shop.double, name="m")
    with pytest.raises(ConfigError, match="column 'number' is string"):
        map(df.selectExpr("cast(number AS string) AS number"), shop.double, app=shop.target, name="m")
    with pytest.raises(ConfigError, match="the name of a map"):
        map(df.drop("result"), shop.double, app=shop.target, name="")
    monkeypatch.setattr(shop.module.quote.fn, "__module__", "__main__")
    assert sys.modules["__main__"]
    with pytest.raises(ConfigError, match="executors cannot import an app that a script or a notebook makes"):
        map(df.selectExpr("'pear' AS item"), shop.quote, name="m", workers=1)


def test_the_result_of_a_row_is_that_of_its_chain(spark: SparkSession, shop: Shop) -> None:
    df = spark.range(5).selectExpr("id AS number")
    with fleet(shop.target, spark=spark, queues=["chained", "later"], slots=1):
        found = map(df, shop.first, app=shop.target, name="chains", timeout=60)
    assert found.schema["result"].dataType.simpleString() == "string"
    rows = {row.number: row for row in found.collect()}
    assert {number: (row.state, row.result) for number, row in rows.items()} == {
        0: ("completed", "none"), 1: ("completed", "1!"), 2: ("completed", "2!"), 3: ("failed", None),
        4: ("completed", "4!"),
    }  # fmt: skip
    assert rows[3].error.message == "three is one too many"
    chains = spark.read.format("holdfast").options(url=shop.url, table="jobs", queue="later").load()
    assert chains.where("chain IS NOT NULL AND position = 1").count() == 4


def test_a_map_that_is_resumed_waits_for_chains_that_go_on(spark: SparkSession, small: Shop) -> None:
    df = spark.range(3).selectExpr("id AS number")
    with pytest.raises(JobTimeout):
        map(df, small.first, app=small.target, name="resumed", timeout=0)
    assert small.burst("chained").completed == 3
    with pytest.raises(JobTimeout, match="2 rows were not done in time"):
        map(df, small.first, app=small.target, name="resumed", timeout=0)
    assert small.burst("later").completed == 2
    found = map(df, small.first, app=small.target, name="resumed", timeout=20)
    assert sorted(row.result for row in found.collect()) == ["1!", "2!", "none"]


def test_a_map_whose_workers_cannot_work_says_why(
    spark: SparkSession, small: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY_THE_DRIVER", small.url)
    elsewhere = f"os.environ.get('ONLY_THE_DRIVER', 'sqlite:///{small.folder}/elsewhere.db')"
    small.file.write_text(small.file.read_text().replace(repr(small.url), elsewhere, 1))
    with pytest.raises(ConfigError, match=r"worker 1 of .*: sqlite:// store of .* is not the driver's here"):
        map(spark.range(1).selectExpr("id AS number"), small.double, app=small.target, name="m", workers=1)
