"""The lake's Spark session and DataFrames: of events, of files, and of the SQL that makes one table from others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from .delta_table import LakeTable
from .storage.data_file import DataFile
from .storage.parquet_reader import FILE_NAME, Range, ReadPlan, file_reader

FIXED = {
    "spark.sql.session.timeZone": "UTC",  # days and minutes are those of UTC, wherever the lake runs
    "spark.sql.caseSensitive": "false",
}
"""Settings on which the rows of the tables depend."""
TASK_BYTES = 64 << 20
"""About how much one task reads from object storage."""


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


def read(
    spark: SparkSession,
    table: LakeTable,
    chosen: Sequence[DataFile],
    *,
    within: Range | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Return the rows of some of a table's files, without its partition columns.

    `within` leaves out row groups, and then rows, outside a range; `columns` may name `file_name`, too.
    """
    names = columns or [name for name in table.schema.names if name not in table.schema.partition]
    if not chosen:
        return spark.createDataFrame([], from_arrow_schema(_schema(table, names)))
    found = _by_spark(spark, table, chosen, names) if table.location.is_local else _by_python(
        spark, table, chosen, names, within
    )  # fmt: skip
    if within is None:
        return found
    return found.where(fn.col(within.column).between(fn.lit(within.low), fn.lit(within.high)))


def _schema(table: LakeTable, names: Sequence[str]) -> pa.Schema:
    whole = table.schema.arrow
    return pa.schema([whole.field(name) if name != FILE_NAME else pa.field(name, pa.string()) for name in names])


def _by_spark(spark: SparkSession, table: LakeTable, chosen: Sequence[DataFile], names: Sequence[str]) -> DataFrame:
    kept = [name for name in table.schema.names if name not in table.schema.partition]
    paths = [re.sub(r"([*?{}])", r"\\\1", str(Path(table.location.uri, file.path))) for file in chosen]
    found = spark.read.schema(from_arrow_schema(_schema(table, kept))).parquet(*paths)
    return found.select(*(fn.col("_metadata.file_name").alias(name) if name == FILE_NAME else name for name in names))


def _by_python(
    spark: SparkSession, table: LakeTable, chosen: Sequence[DataFile], names: Sequence[str], within: Range | None
) -> DataFrame:
    schema = pa.schema([each.remove_metadata() for each in _schema(table, names)])
    plan = ReadPlan(table.location, schema, _groups(chosen, spark.sparkContext.defaultParallelism), within)
    numbers = spark.range(0, len(plan.groups), 1, len(plan.groups))
    return numbers.mapInArrow(file_reader(plan), from_arrow_schema(schema))


def _groups(chosen: Sequence[DataFile], least: int) -> list[list[str]]:
    """Return files in groups of about the same size, as many as there are cores, or more."""
    wanted = min(len(chosen), max(least, sum(file.size for file in chosen) // TASK_BYTES))
    groups: list[list[str]] = [[] for _ in range(wanted)]
    for at, file in enumerate(sorted(chosen, key=lambda file: -file.size)):
        groups[at % wanted].append(file.path)
    return groups


def holding(
    spark: SparkSession, table: LakeTable, chosen: Sequence[DataFile], keys: DataFrame, within: Range | None = None
) -> list[DataFile]:
    """Return those of some files that hold a row with one of these keys. Only the columns of the keys are read."""
    if not chosen:
        return []
    rows = read(spark, table, chosen, within=within, columns=[*keys.columns, FILE_NAME])
    found = rows.join(keys, list(keys.columns), "left_semi").select(FILE_NAME).distinct().collect()
    names = {row[0] for row in found}
    return [file for file in chosen if file.name in names]


def from_sql(spark: SparkSession, name: str, **views: DataFrame) -> DataFrame:
    """Return what the SQL of a table makes of these views."""
    return spark.sql(statement(name), **views)


def events_between(spark: SparkSession, url: str, after: str | None, upto: str) -> DataFrame:
    """Return the events after one position, up to and with another. `BatchLog` notes those that were trimmed."""
    reader = spark.read.format("holdfast").option("url", url).option("asOf", upto).option("failOnDataLoss", "false")
    events = (reader if after is None else reader.option("after", after)).load()
    return events.where("transition <> 'gap'")
