"""Gold: what happened in each minute. The minutes of a batch's events are counted again, from all of their events.

Workers are the exception: an attempt counts in each minute in which it ran, however long ago, and its length is known
only when it ends. So a batch adds to the workers' minutes, once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...core.action import OPERATE
from .delta_table import DataFile, LakeTable
from .frames import from_sql, read

OF_A_RUN = f"transition <> '{OPERATE}'"
MINUTE = "date_trunc('minute', at)"
ADD = {"ended": "t.ended + s.ended", "busy_ms": "t.busy_ms + s.busy_ms"}


def touching(events: LakeTable, new: Sequence[DataFile]) -> list[DataFile]:
    """Return every file that may hold an event of a minute of the new files."""
    ranges = [(file.lowest["at"].replace(second=0, microsecond=0), file.highest["at"]) for file in new]
    ranges = [(low, high.replace(second=59, microsecond=999999)) for low, high in ranges]
    return events.files(lambda file: any(file.overlaps("at", low, high) for low, high in ranges))


def frames(spark: SparkSession, events: LakeTable, batch: DataFrame, new: Sequence[DataFile]) -> dict[str, DataFrame]:
    """Return the new rows of each gold table, by name, as frames that are not computed yet."""
    files = touching(events, new)
    chosen = read(spark, events, files).where(OF_A_RUN).selectExpr("*", f"{MINUTE} AS minute")
    if len(files) > len(new):
        touched = batch.selectExpr("queue", f"{MINUTE} AS minute").distinct()
        chosen = chosen.join(touched, ["queue", "minute"], "left_semi")
    tenants = from_sql(spark, "tenants", told=chosen)
    return {
        "tenants": tenants,
        "errors": from_sql(spark, "errors", told=chosen),
        "minutes": from_sql(spark, "minutes", told=chosen, tenants=tenants),
        "workers": from_sql(spark, "workers", batch=batch),
    }


def rows(frame: DataFrame, table: LakeTable) -> pa.Table:
    """Compute and return the rows of a gold table."""
    return frame.select(*table.schema.names).toArrow().cast(table.schema.arrow)
