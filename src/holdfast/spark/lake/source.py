"""The events of a batch, as Spark reads them from the store."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def events_between(spark: SparkSession, url: str, after: str | None, upto: str) -> DataFrame:
    """Return the events behind one position, up to and with another. What was trimmed is not there (see `Plan`)."""
    reader = spark.read.format("holdfast").option("url", url).option("upto", upto).option("onGap", "count")
    told = (reader if after is None else reader.option("after", after)).load()
    return told.where("transition <> 'gap'")
