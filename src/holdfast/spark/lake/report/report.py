"""The report of a lake over a stretch of time: tables, series and totals. It needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..delta_table import LakeTable, query
from ..opening import open_tables
from ..storage.location import LakeLocation

Row = dict[str, Any]  # a row of a table, whose columns the SQL names
SECTIONS = ("queues", "backlog", "errors", "tenants", "workers", "gaps")
POINTS = 120
"""The most points of a chart."""
SHORT = timedelta(minutes=10)
"""Shorter stretches are drawn by the second, from the events."""


@dataclass(frozen=True)
class LakeReport:
    """Everything that a report shows."""

    path: str
    since: datetime | None
    first: datetime | None
    """The first minute with an event."""
    last: datetime | None
    step: timedelta
    """How long one point of a chart is."""
    read_at: datetime | None
    """When the last batch was planned."""
    queues: list[Row]
    backlog: list[Row]
    errors: list[Row]
    tenants: list[Row]
    workers: list[Row]
    series: list[Row]
    busy: list[Row]
    gaps: list[Row]


def make_report(path: str | Path | LakeLocation, since: datetime | None = None) -> LakeReport:
    """Return what happened from `since` on, or all of it."""
    tables = open_tables(path)
    begin = (since or datetime.fromtimestamp(0, UTC)).replace(second=0, microsecond=0)
    span = query(tables, f"SELECT min(minute), max(minute) FROM minutes WHERE minute >= {literal(begin)}")
    first, last = next(iter(zip(*span.to_pydict().values(), strict=True)))
    step = _step(first, last)
    values = {"since": literal(begin), "step": str(int(step.total_seconds()))}
    found = {name: _rows(tables, name, values) for name in SECTIONS}
    fine = step < timedelta(minutes=1)
    found["series"] = _rows(tables, "moments" if fine else "series", values)
    found["busy"] = _rows(tables, "running" if fine else "busy", values)
    read = query(tables, "SELECT max(planned_at) AS at FROM batches").to_pylist()[0]["at"]
    return LakeReport(str(path), since, first, last, step, read, **found)


def _rows(tables: dict[str, LakeTable], name: str, values: dict[str, str]) -> list[Row]:
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text().format(**values)
    rows: list[Row] = query(tables, text).to_pylist()
    return rows


def literal(at: datetime) -> str:
    """Return an instant as an SQL literal."""
    return f"TIMESTAMP '{at.astimezone(UTC).isoformat()}'"


def _step(first: datetime | None, last: datetime | None) -> timedelta:
    if first is None or last is None:
        return timedelta(minutes=1)
    length = last - first + timedelta(minutes=1)
    if length <= SHORT:
        return timedelta(seconds=-(-length.total_seconds() // POINTS))
    return timedelta(minutes=max(1, -(-length.total_seconds() // 60 // POINTS)))
