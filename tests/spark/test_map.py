"""`holdfast.spark.map`: a DataFrame through the queue, and its results back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_places import KINDS, fresh
from spark_shop import Shop

from holdfast.errors import ConfigError, JobTimeout
from holdfast.spark import map, release


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
    release("prices", shop.url, ttl=0)
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
