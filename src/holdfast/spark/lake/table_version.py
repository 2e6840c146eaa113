"""The version of a lake's tables: what newer code adds to older tables, and what older code refuses."""

from __future__ import annotations

from deltalake import DeltaTable, Field, Schema

from ...errors import LakeTooNew
from .storage.location import LakeLocation
from .table_schema import TableSchema

VERSION = 1
"""Raised when tables change so that older code would write them wrongly."""
_NAME = "holdfast.lakeVersion"
PROPERTIES = {
    _NAME: str(VERSION),
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""Of every table: its log is short to read, and does not grow for ever."""


def missing_columns(delta: DeltaTable, schema: TableSchema, lake: LakeLocation) -> list[str]:
    """Return the columns that a table of an older Holdfast lacks; raise for a table of a newer one."""
    found = int(delta.metadata().configuration.get(_NAME) or VERSION)
    there = {field.name for field in delta.schema().fields}
    unknown = there - set(schema.names)
    if found > VERSION or unknown:
        what = f"has version {found}" if found > VERSION else f"has the column {min(unknown)!r}"
        raise LakeTooNew(
            f"{lake} was written by a newer Holdfast: its table {schema.name} {what}; upgrade this one to write to it"
        )
    return [name for name in schema.names if name not in there]


def bring_up_to_date(delta: DeltaTable, schema: TableSchema, lake: LakeLocation) -> None:
    """Add the columns that a table of an older Holdfast lacks; raise for a table of a newer one."""
    missing = missing_columns(delta, schema, lake)
    if missing:
        whole = Schema.from_arrow(schema.arrow)
        fields: list[Field] = [field for field in whole.fields if field.name in missing]
        delta.alter.add_columns(fields)
        delta.update_incremental()
