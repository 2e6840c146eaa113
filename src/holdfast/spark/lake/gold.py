"""Gold: what happened in each minute. The minutes of a batch's events are counted again, from all of their events.

Workers are the exception: an attempt counts in each minute in which it ran, however long ago, and its length is known
only when it ends. So a batch adds to the workers' minutes, once.

`frames` says what the rows mean. How they come into a table is the same for all of them: executors merge them with the
rows of the few files that have the same minutes, and write both anew. No row of gold passes through the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ...core.action import OPERATE
from .delta_table import LakeTable, overlapping
from .frames import from_sql, holding, read
from .storage.data_file import DataFile
from .storage.parquet_reader import Range

OF_A_RUN = f"transition <> '{OPERATE}'"
MINUTE = "date_trunc('minute', at)"
ADDED = {"workers": ("ended", "busy_ms")}
"""Columns that a batch adds to, by table. In other tables a batch's row takes the place of the one with its key."""
LONGEST = timedelta(days=7)
"""A worker's attempt counts at most so many minutes: a clock that jumps by a year must not make a row for each."""
FEW = 8
"""More files than this that may have a worker's minute are looked at for whether they do."""
Minutes = list[tuple[datetime, datetime]]


def minutes_of(new: Sequence[DataFile]) -> Minutes:
    """Return the minutes of new files of events, as ranges, each from its first instant to its last."""
    ranges = sorted((file.lowest["at"], file.highest["at"]) for file in new if file.rows)
    found: Minutes = []
    for low, high in ranges:
        low, high = low.replace(second=0, microsecond=0), high.replace(second=59, microsecond=999999)
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def frames(spark: SparkSession, events: LakeTable, batch: DataFrame, new: Sequence[DataFile]) -> dict[str, DataFrame]:
    """Return the new rows of each gold table, by name, as frames that are not computed yet."""
    minutes = minutes_of(new)
    files = events.files(overlapping("at", minutes))
    whole = Range("at", minutes[0][0], minutes[-1][1])
    chosen = read(spark, events, files, within=whole).where(OF_A_RUN).selectExpr("*", f"{MINUTE} AS minute")
    if len(files) > len(new):
        touched = batch.selectExpr("queue", f"{MINUTE} AS minute").distinct()
        chosen = chosen.join(touched, ["queue", "minute"], "left_semi")
    tenants = from_sql(spark, "tenants", told=chosen)
    longest = int(LONGEST.total_seconds() * 1000)
    ran = batch.withColumn("run_ms", fn.expr(f"IF(run_ms IS NULL, NULL, least(greatest(run_ms, 0L), {longest}L))"))
    return {
        "tenants": tenants,
        "errors": from_sql(spark, "errors", told=chosen),
        "minutes": from_sql(spark, "minutes", told=chosen, tenants=tenants),
        "workers": from_sql(spark, "workers", batch=ran),
    }


def write(
    spark: SparkSession, table: LakeTable, rows: DataFrame, new: Sequence[DataFile], number: int
) -> tuple[list[DataFile], list[DataFile]]:
    """Return files with the rows of a gold table as a batch leaves them, and the files that these replace."""
    old = table.files(overlapping("minute", _concerned(table, new)))
    if table.schema.name in ADDED and len(old) > FEW:
        old = holding(spark, table, old, rows.select(*table.schema.key).distinct())
    rows = rows.select(*table.schema.names)
    if old:
        rows = _merged(table, rows, read(spark, table, old).withColumn("day", fn.expr("CAST(minute AS date)")))
    return table.write(rows, number), old


def _concerned(table: LakeTable, new: Sequence[DataFile]) -> Minutes:
    """Return the minutes of which a batch may change a row."""
    minutes = minutes_of(new)
    if table.schema.name not in ADDED:
        return minutes
    longest = max((file.highest.get("run_ms") or 0 for file in new), default=0)
    back = min(timedelta(milliseconds=longest), LONGEST) + timedelta(minutes=1)
    return [(low - back, high) for low, high in minutes]


def _merged(table: LakeTable, rows: DataFrame, known: DataFrame) -> DataFrame:
    """Return the rows together with those that are known, one for each key."""
    names, added = table.schema.names, ADDED.get(table.schema.name, ())
    both = rows.withColumn("is_new", fn.lit(True)).unionByName(known.select(*names).withColumn("is_new", fn.lit(False)))
    rest = [name for name in names if name not in (*table.schema.key, *added)]
    folded = both.groupBy(*table.schema.key).agg(
        fn.max_by(fn.struct(*rest), "is_new").alias("last"), *(fn.sum(name).alias(name) for name in added)
    )
    return folded.select(*(fn.col(f"last.{name}").alias(name) if name in rest else name for name in names))
