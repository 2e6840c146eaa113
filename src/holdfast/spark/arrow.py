"""Columns of a store as Arrow batches of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, TimestampType

from ..core.duration import LATEST_MS
from ..store.scan import Columns
from .schema import SCHEMAS, Table


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """Return the schema that Spark wants batches of a table in."""
    return to_arrow_schema(SCHEMAS[table], timezone="UTC")


def stored_name(field: StructField) -> str:
    """Return what the store calls a column: instants there are milliseconds."""
    return f"{field.name}_ms" if isinstance(field.dataType, TimestampType) else field.name


MADE_HERE: dict[Table, str] = {"events": "missing", "jobs": "message", "results": "message"}
"""The column that no store has by itself."""
_CHAIN = ("chain_queue", "chain_id", "chain_run")
"""What a store has of the first job of a chain."""


@cache
def stored_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that the store is asked for."""
    names = [(stored_name(field),) if field.name != "chain" else _CHAIN for field in SCHEMAS[table]]
    return tuple(name for several in names for name in several if name != MADE_HERE[table])


def batch(table: Table, columns: Columns) -> pa.RecordBatch:
    """Return some rows of a store as a batch of a table."""
    schema = arrow_schema(table)
    length = len(next(iter(columns.values())))
    if table != "events":
        columns = {**columns, **_taken_apart(columns)}
    arrays = []
    for field, arrow in zip(SCHEMAS[table], schema, strict=True):
        name = stored_name(field)
        arrays.append(_array(columns[name], arrow.type) if name in columns else pa.nulls(length, arrow.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_timestamp(type):
        return _instants(values, type)
    if pa.types.is_boolean(type):
        return pa.array([None if value is None else bool(value) for value in values], type)
    if pa.types.is_map(type):
        return pa.array([list(value.items()) for value in values], type)
    return values.cast(type) if isinstance(values, pa.Array) else pa.array(values, type)


def _instants(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Return milliseconds as Spark's microseconds; nothing is later than the year 9999."""
    millis = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
    return pa.compute.multiply(pa.compute.min_element_wise(millis, LATEST_MS, skip_nulls=False), 1000).cast(type)


def _taken_apart(columns: Columns) -> dict[str, Sequence[Any]]:
    """Return the columns of a job that the store has in another form, as what they mean."""
    found: dict[str, Sequence[Any]] = {}
    if "error" in columns:
        found["error"] = [_decoded(text, _error) for text in columns["error"]]
    if "headers" in columns:
        found["headers"] = [_decoded(text, dict) or {} for text in columns["headers"]]
    if "chain_run" in columns:
        first = zip(*(columns[name] for name in _CHAIN), strict=True)
        found["chain"] = [None if run is None else {"queue": queue, "id": id, "run": run} for queue, id, run in first]
    if "progress" in columns:
        progress = [_decoded(text, dict) or {} for text in columns["progress"]]
        found["progress"] = [each.get("fraction") for each in progress]
        found["message"] = [each.get("message") for each in progress]
    return found


def _decoded(text: bytes | str | None, form: Callable[[Any], Any]) -> Any:
    if text is None:
        return None
    try:
        return form(msgspec.json.decode(text))
    except (msgspec.MsgspecError, TypeError, ValueError, AttributeError):
        return None  # a damaged field must not hide the job from whoever looks for it


def _error(found: dict[str, Any]) -> dict[str, str]:
    return {
        "type": str(found.get("type", "")),
        "message": str(found.get("message", "")),
        "kind": str(found.get("kind", "failure")),
        "traceback": str(found.get("traceback", "")),
        "fields": msgspec.json.encode(found.get("fields", {})).decode(),
    }


def gap_row(missing: int | None) -> pa.RecordBatch:
    """Return the row that stands for events that are gone."""
    said = "the log was reset" if missing is None else f"{missing} events were trimmed before they could be read"
    row = {
        **dict.fromkeys(("epoch", "queue", "id"), ""),
        **dict.fromkeys(
            ("sequence", "at", "run", "attempt", "priority", "failures", "stalls", "timeouts", "releases"), 0
        ),
        "transition": "gap",
        "message": said,
        "missing": missing,
    }
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema("events"))
