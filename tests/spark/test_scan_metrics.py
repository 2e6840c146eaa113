"""What a scan has read is in Spark's own metrics, where the SQL tab of its UI shows it: rows and bytes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from spark_places import Filled, fresh


def metrics_of(frame: DataFrame) -> dict[str, int]:
    """Return the metrics of the scan of a frame that has been used."""
    scan = frame._jdf.queryExecution().executedPlan()
    while scan.children().size():
        scan = scan.children().head()
    names = ("numOutputRows", "pythonDataReceived")
    return {name: int(scan.metrics().get(name).get().value()) for name in names}


def test_rows_and_bytes_of_a_scan_are_in_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    source = spark.read.format("holdfast").options(url=Filled(fresh("sqlite", tmp_path)).url, table="jobs")
    whole, narrow = source.load(), source.option("columns", "id").load()
    rows = len(whole.collect())
    assert len(narrow.collect()) == rows > 0
    assert metrics_of(whole)["numOutputRows"] == metrics_of(narrow)["numOutputRows"] == rows
    assert 0 < metrics_of(narrow)["pythonDataReceived"] < metrics_of(whole)["pythonDataReceived"] / 3
