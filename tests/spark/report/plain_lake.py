"""A lake without Spark: the tables of a log, worked out in plain Python and written by delta-rs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import truth
from deltalake import write_deltalake
from lake_check import TOLD

from holdfast import Event
from holdfast.spark.lake.schemas import LAKE_TABLES
from holdfast.spark.lake.table_schema import TableSchema


def write_lake(folder: Path, events: Sequence[Event], read_at: datetime, gaps: Sequence[dict[str, Any]] = ()) -> Path:
    """Write what the events say into a lake's tables; return its folder."""
    rows = {name: _rows(name, key, events) for name, key in TOLD.items()}
    rows["events"] = [_event(number, event) for number, event in enumerate(events, 1)]
    rows["batches"] = [{"batch": 1, "reader": "lake-1", "upto": "e:1", "again": False, "planned_at": read_at}]
    rows["gaps"] = list(gaps)
    for schema in LAKE_TABLES:
        write_table(folder, schema, rows.get(schema.name, []))
    return folder


def write_table(folder: Path, schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one table, over what was there."""
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema.arrow)
    write_deltalake(str(folder / schema.name), table, mode="overwrite", partition_by=list(schema.partition) or None)


def _rows(name: str, key: tuple[str, ...], events: Sequence[Event]) -> list[dict[str, Any]]:
    found: truth.Rows = getattr(truth, name)(events)
    return [_row(dict(zip(key, place, strict=True)) | row) for place, row in found.items()]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    if "minute" in row:
        day = row["minute"].date()
    else:
        over = row["ended_at"] if "ended_at" in row else row["finished_at"]
        day = over and over.date()
    shelf = None if day else row.get("run", 0) // 16384
    return {"epoch": "e", "day": day, "shelf": shelf, "sequence": 1, **row}


def _event(number: int, event: Event) -> dict[str, Any]:
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC)
    told = {name: getattr(event, name) for name in Event.__struct_fields__}
    told |= msgspec.structs.asdict(event.counters)
    return told | {"epoch": "e", "sequence": number, "at": at, "batch": 1, "day": at.date(), "tags": list(event.tags)}
