"""Gold: what happened in each minute. The minutes that a batch touches are counted anew, from all of their events.

Workers are the exception: an attempt counts in each minute in which it ran, however long ago, and what it adds is
known when it ends. So a batch adds to the workers' minutes, once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .frame import made, read
from .table import File, Table

MINUTE = "date_trunc('minute', at)"
ADD = {"ended": "t.ended + s.ended", "busy_ms": "t.busy_ms + s.busy_ms"}


def touching(events: Table, new: Sequence[File]) -> list[File]:
    """Return every file that may hold an event of a minute of the new files."""
    ranges = [(file.lowest["at"].replace(second=0, microsecond=0), file.highest["at"]) for file in new]
    ranges = [(low, high.replace(second=59, microsecond=999999)) for low, high in ranges]
    return events.files(lambda file: any(file.overlaps("at", low, high) for low, high in ranges))


def frames(spark: SparkSession, events: Table, batch: DataFrame, new: Sequence[File]) -> dict[str, DataFrame]:
    """Return the new rows of each gold table, by name, not worked out yet."""
    files = touching(events, new)
    told = read(spark, events, files).selectExpr("*", f"{MINUTE} AS minute")
    if len(files) > len(new):
        touched = batch.selectExpr("queue", f"{MINUTE} AS minute").distinct()
        told = told.join(touched, ["queue", "minute"], "left_semi")
    tenants = made(spark, "tenants", told=told)
    return {
        "tenants": tenants,
        "errors": made(spark, "errors", told=told),
        "minutes": made(spark, "minutes", told=told, tenants=tenants),
        "workers": made(spark, "workers", batch=batch),
    }


def rows(frame: DataFrame, table: Table) -> pa.Table:
    """Return the rows of a gold table, worked out."""
    return frame.select(*table.shape.names).toArrow().cast(table.shape.arrow)
