"""DataFrames of the lake's files, and the SQL that makes one table from others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from .table import File, Table


@cache
def statement(name: str) -> str:
    """Return the SQL of a table."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text()


def read(spark: SparkSession, table: Table, chosen: Sequence[File]) -> DataFrame:
    """Return the rows of some of a table's files, without its partition columns."""
    names = [name for name in table.shape.names if name not in table.shape.partition]
    schema = from_arrow_schema(table.shape.arrow)
    plain = type(schema)([schema[name] for name in names])
    return spark.read.schema(plain).parquet(*table.uris(chosen)) if chosen else spark.createDataFrame([], plain)


def made(spark: SparkSession, name: str, **views: DataFrame) -> DataFrame:
    """Return what the SQL of a table makes of these views."""
    return spark.sql(statement(name), **views)
