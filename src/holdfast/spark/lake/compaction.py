"""Make few large files of many small ones, a bounded amount with each batch.

Files of a partition are merged with files of about their size, so that a row is written again a few times at most,
however long the lake grows. Files that the next batch may have to read or replace are left alone: those of the minute
at hand, and open rows of silver, which are few.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from .delta_table import LakeTable
from .frames import read
from .storage.data_file import DataFile

log = logging.getLogger("holdfast.lake")
TIERS = (1 << 20, 16 << 20, 128 << 20)
"""Files below the first size are merged with their like, and so on. Files beyond the last are large enough."""
TOGETHER = 8
"""So many files of a tier are merged; of a day that is over, so many of any tier."""
OVER_TOGETHER = 4
MOST_FILES = 64
MOST_BYTES = 256 << 20
"""The most that one batch merges in a table."""
ORDER = {"events": "at", "attempts": "run", "jobs": "run"}
"""By what the rows of a merged file are ordered, so that a range of them is found; gold by the minute."""
TIDY_EVERY = 100
"""After so many batches, files that were replaced a day ago are deleted."""
REPLACED_HOURS = 24


def compact(spark: SparkSession, table: LakeTable, batch: int, until: datetime | None) -> int:
    """Merge some small files that lie before `until`; return how many. Another writer's commit is no harm."""
    chosen = small_files(table, until)
    if not chosen:
        return 0
    merged = table.write(_whole(spark, table, chosen), batch, compression="zstd")
    try:
        table.replace(merged, chosen)
    except CommitFailedError:
        table.drop(merged)  # another process was at work on the table: the next batch tries again
        table.refresh()
        return 0
    return len(chosen)


def small_files(table: LakeTable, until: datetime | None) -> list[DataFile]:
    """Return files of one partition that are worth merging, or none. The choice is made in the log's own state."""
    actions = _sealed(table, until)
    if not actions.num_rows:
        return []
    names = [name for name in actions.schema.names if name.startswith("partition.")]
    tier = _tier(actions["size_bytes"])
    grouped = actions.append_column("tier", tier)
    newest = _newest(grouped)
    best = _best(grouped, names, ["tier"], TOGETHER, None)
    if best is None and newest is not None:
        best = _best(grouped, names, [], OVER_TOGETHER, newest - timedelta(days=1))
    if best is None:
        return []
    return _bounded([DataFile.from_action(row) for row in grouped.filter(best).drop_columns(["tier"]).to_pylist()])


def _sealed(table: LakeTable, until: datetime | None) -> pa.Table:
    """Return the actions of small files that no later batch is likely to need."""
    actions = table.actions()
    wanted = pc.field("size_bytes") < TIERS[-1]
    if "partition.shelf" in actions.schema.names:
        wanted = wanted & pc.field("partition.shelf").is_null()
    last = f"max.{'at' if table.schema.name == 'events' else 'minute'}"
    if until is not None and last in actions.schema.names:
        wanted = wanted & (pc.field(last) < pa.scalar(until, actions.schema.field(last).type))
    return actions.filter(wanted)


def _tier(sizes: pa.ChunkedArray) -> pa.Array:
    found = pa.array([0] * len(sizes), pa.int8())
    for bound in TIERS[:-1]:
        found = pc.add(found, pc.greater_equal(sizes, bound).combine_chunks().cast(pa.int8()))
    return found


def _newest(actions: pa.Table) -> date | None:
    found: date | None = pc.max(actions["partition.day"]).as_py() if "partition.day" in actions.schema.names else None
    return found


def _best(
    actions: pa.Table, names: Sequence[str], more: Sequence[str], least: int, before: date | None
) -> pc.Expression | None:
    """Return the choice of the group with the most files, if it has at least so many."""
    if before is not None:
        actions = actions.filter(pc.field("partition.day") <= pa.scalar(before, actions["partition.day"].type))
    keys = [*names, *more]
    if not keys or not actions.num_rows:
        groups = [{"path_count": actions.num_rows}]
    else:
        groups = actions.group_by(keys).aggregate([("path", "count")]).sort_by([("path_count", "descending")])
        groups = groups.slice(0, 1).to_pylist()
    if not groups or groups[0]["path_count"] < least:
        return None
    chosen = pc.scalar(True)
    for name in keys:
        value = groups[0][name]
        chosen = chosen & (pc.field(name).is_null() if value is None else pc.field(name) == value)
    return chosen


def _bounded(files: Sequence[DataFile]) -> list[DataFile]:
    """Return the smallest of the files, as many as one merge may have; none when that is only one."""
    found: list[DataFile] = []
    size = 0
    for file in sorted(files, key=lambda file: file.size):
        if found and (len(found) >= MOST_FILES or size + file.size > MOST_BYTES):
            break
        found.append(file)
        size += file.size
    return found if len(found) > 1 else []


def _whole(spark: SparkSession, table: LakeTable, chosen: Sequence[DataFile]) -> DataFrame:
    """Return all rows of files of one partition, in order, as one task writes them."""
    found = read(spark, table, chosen)
    for name in table.schema.partition:
        type = {"day": "date", "shelf": "bigint"}[name]
        found = found.withColumn(name, fn.lit(chosen[0].partition[name]).cast(type))
    names = [name for name in (ORDER.get(table.schema.name, "minute"), "queue") if name in table.schema.names]
    found = found.coalesce(1)
    return found.sortWithinPartitions(*names) if names else found


def delete_replaced(table: LakeTable) -> None:
    """Delete the files that were replaced a day ago. They are in the log's state; nothing is listed."""
    with suppress(CommitFailedError):  # another process was at work on the table: the next time is early enough
        table.delta.vacuum(
            retention_hours=REPLACED_HOURS, dry_run=False, enforce_retention_duration=False, full=False
        )  # fmt: skip
    table.refresh()
