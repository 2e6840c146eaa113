"""Columns of a store as Arrow batches of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from ...core.duration import LATEST_MS
from ...core.envelope import readable
from ...store.scan import Columns
from .tables import SCHEMAS, Table

Values = Sequence[Any]  # a column of a store may hold anything


def chosen_fields(table: Table, columns: tuple[str, ...] | None) -> StructType:
    """Return the columns that a frame has: some of the table's, or all, in the table's order."""
    whole = SCHEMAS[table]
    return whole if columns is None else StructType([field for field in whole if field.name in columns])


@cache
def arrow_schema(table: Table, columns: tuple[str, ...] | None = None) -> pa.Schema:
    """Return the schema that Spark wants batches of a table in."""
    return to_arrow_schema(chosen_fields(table, columns), timezone="UTC")


def stored_name(field: StructField) -> str:
    """Return the store's name of a column: instants are milliseconds there."""
    return f"{field.name}_ms" if isinstance(field.dataType, TimestampType) else field.name


_MADE_OF: dict[Table, dict[str, tuple[str, ...]]] = {
    "events": {"tags": ("envelope",), "missing": ()},
    "jobs": {
        "chain": ("chain_queue", "chain_id", "chain_run"),
        "headers": ("envelope",),
        "tags": ("envelope",),
        "message": ("progress",),
    },
    "results": {},
}
"""Columns that no store has, and the store's columns of which they are made."""


def is_decoded(table: Table, column: str) -> bool:
    """Return whether the column is made here, of what the store keeps encoded."""
    return column in _MADE_OF[table] or (table == "jobs" and column in ("error", "progress"))


@cache
def stored_columns(table: Table, columns: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the columns to ask the store for, at least one."""
    made = _MADE_OF[table]
    names = [made.get(field.name, (stored_name(field),)) for field in chosen_fields(table, columns)]
    return tuple(dict.fromkeys(name for several in names for name in several)) or ("run",)


def batch(table: Table, columns: Columns, chosen: tuple[str, ...] | None = None) -> pa.RecordBatch:
    """Return some rows of a store as a batch of a table, or of some of its columns."""
    schema = arrow_schema(table, chosen)
    length = len(next(iter(columns.values())))
    columns = {**columns, **(_tags(columns) if table == "events" else _decoded_columns(columns))}
    arrays = []
    for field, arrow in zip(chosen_fields(table, chosen), schema, strict=True):
        name = stored_name(field)
        arrays.append(_array(columns[name], arrow.type) if name in columns else pa.nulls(length, arrow.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Values, type: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_timestamp(type):
        return _instants(values, type)
    if pa.types.is_boolean(type):
        return pa.array([None if value is None else bool(value) for value in values], type)
    if pa.types.is_map(type):
        return pa.array([list(value.items()) for value in values], type)
    return values.cast(type) if isinstance(values, pa.Array) else pa.array(values, type)


def _instants(values: Values, type: pa.DataType) -> pa.Array:
    """Return milliseconds as Spark's microseconds, at the latest the year 9999."""
    millis = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
    return pa.compute.multiply(pa.compute.min_element_wise(millis, LATEST_MS, skip_nulls=False), 1000).cast(type)


def _decoded_columns(columns: Columns) -> dict[str, Values]:
    """Return the columns of a job that the store keeps encoded, decoded."""
    found: dict[str, Values] = {}
    if "error" in columns:
        found["error"] = [_decoded(text, _error) for text in columns["error"]]
    if "envelope" in columns:
        found |= _tags(columns)
        found["headers"] = [readable(text).headers for text in columns["envelope"]]
    if "chain_run" in columns:
        first = zip(*(columns[name] for name in _MADE_OF["jobs"]["chain"]), strict=True)
        found["chain"] = [None if run is None else {"queue": queue, "id": id, "run": run} for queue, id, run in first]
    if "progress" in columns:
        progress = [_decoded(text, dict) or {} for text in columns["progress"]]
        found["progress"] = [each.get("fraction") for each in progress]
        found["message"] = [each.get("message") for each in progress]
    return found


def _tags(columns: Columns) -> dict[str, Values]:
    """Return the tags, if they are wanted. Pages without any are common, and made without a look at each row."""
    if "envelope" not in columns:
        return {}
    stored = columns["envelope"]
    if stored.null_count == len(stored) if isinstance(stored, pa.Array) else not any(stored):
        nowhere = pa.array([0] * (len(stored) + 1), pa.int32())
        return {"tags": pa.ListArray.from_arrays(nowhere, pa.array([], pa.string()))}
    if isinstance(stored, pa.Array):
        stored = stored.to_pylist()
    return {"tags": [list(readable(text).tags) if text else [] for text in stored]}


def _decoded(text: bytes | str | None, form: Callable[[Any], Any]) -> Any:
    if text is None:
        return None
    try:
        return form(msgspec.json.decode(text))
    except (msgspec.MsgspecError, TypeError, ValueError, AttributeError):
        return None  # a damaged field must not hide its job


def _error(found: dict[str, Any]) -> dict[str, str]:
    return {
        "type": str(found.get("type", "")),
        "message": str(found.get("message", "")),
        "kind": str(found.get("kind", "failure")),
        "traceback": str(found.get("traceback", "")),
        "fields": msgspec.json.encode(found.get("fields", {})).decode(),
    }


def gap_row(missing: int | None, chosen: tuple[str, ...] | None = None) -> pa.RecordBatch:
    """Return the row that stands for missing events."""
    message = "the log was reset" if missing is None else f"{missing} events were trimmed before they could be read"
    row: dict[str, object] = {
        **dict.fromkeys(("epoch", "queue", "id"), ""),
        **dict.fromkeys(
            ("sequence", "at", "run", "attempt", "priority", "failures", "stalls", "timeouts", "releases"), 0
        ),
        "transition": "gap",
        "message": message,
        "tags": [],
        "missing": missing,
    }
    schema = arrow_schema("events", chosen)
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names}], schema=schema)
