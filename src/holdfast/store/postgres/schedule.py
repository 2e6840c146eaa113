"""Schedules: the statements, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..contract import Due, ScheduleChange, ScheduleRow
from .array import blob

PUT = "SELECT holdfast.put_schedule(%s::bigint, %s, %s, %s, %s, %s::bigint, %s::bytea)"


def values(now: str | None, change: ScheduleChange) -> tuple[Any, ...]:
    """Return the arguments of `put_schedule`."""
    return (
        now, change.queue, change.name, change.expected, change.revision, change.next_at_ms, blob(change.body),
    )  # fmt: skip


def due(rows: Sequence[dict[str, Any]]) -> Due:
    """Return what is due; there is one row at least, which tells the time."""
    first = rows[0]
    fields = ScheduleRow.__struct_fields__
    found = [ScheduleRow(**{name: row[name] for name in fields}) for row in rows if row["name"] is not None]
    return Due(now_ms=first["now"], rows=found, next_at_ms=first["later"])
