"""The lake's Spark session and DataFrames: of events, of files, and of the SQL that makes one table from others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from .delta_table import DataFile, LakeTable

FIXED = {
    "spark.sql.session.timeZone": "UTC",  # days and minutes are those of UTC, wherever the lake runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.caseSensitive": "false",
}
"""Settings on which the rows of the tables depend."""


def own_session(spark: SparkSession) -> SparkSession:
    """Return another session of the same application: its settings, except those that the tables depend on."""
    made = spark.newSession()
    for name, value in {**spark.conf.getAll, **FIXED}.items():
        if made.conf.isModifiable(name):
            made.conf.set(name, value)
    return made


@cache
def statement(name: str) -> str:
    """Return the SQL of a table."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text()


def read(spark: SparkSession, table: LakeTable, chosen: Sequence[DataFile]) -> DataFrame:
    """Return the rows of some of a table's files, without its partition columns."""
    names = [name for name in table.schema.names if name not in table.schema.partition]
    schema = from_arrow_schema(table.schema.arrow)
    plain = type(schema)([schema[name] for name in names])
    return spark.read.schema(plain).parquet(*table.uris(chosen)) if chosen else spark.createDataFrame([], plain)


def from_sql(spark: SparkSession, name: str, **views: DataFrame) -> DataFrame:
    """Return what the SQL of a table makes of these views."""
    return spark.sql(statement(name), **views)


def events_between(spark: SparkSession, url: str, after: str | None, upto: str) -> DataFrame:
    """Return the events after one position, up to and with another. `BatchLog` notes those that were trimmed."""
    reader = spark.read.format("holdfast").option("url", url).option("asOf", upto).option("failOnDataLoss", "false")
    events = (reader if after is None else reader.option("after", after)).load()
    return events.where("transition <> 'gap'")
