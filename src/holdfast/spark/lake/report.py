"""What a lake says of a stretch of time, ready to be shown: tables, series and totals. No Spark is needed to look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from .query import query
from .schema import SHAPES
from .table import Table

Row = dict[str, Any]
SECTIONS = ("queues", "backlog", "errors", "tenants", "workers", "gaps")
POINTS = 120
"""A chart has at most so many points."""
SHORT = timedelta(minutes=10)
"""A shorter time is drawn by the second, from the events."""


@dataclass(frozen=True)
class Report:
    """Everything that a report shows."""

    path: str
    since: datetime | None
    first: datetime | None
    """The first minute of which there is something to tell."""
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


def open_tables(path: Path) -> dict[str, Table]:
    """Return the tables of a lake that is there."""
    if not (path / "batches" / "_delta_log").is_dir():
        raise ConfigError(f"{path} is no lake: name its folder with --path, or make one with holdfast lake run")
    return {shape.name: Table(path, shape) for shape in SHAPES}


def report(path: Path, since: datetime | None = None) -> Report:
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
    return Report(str(path), since, first, last, step, read, **found)


def _rows(tables: dict[str, Table], name: str, values: dict[str, str]) -> list[Row]:
    text = files(__package__).joinpath("sql", "report", f"{name}.sql").read_text().format(**values)
    rows: list[Row] = query(tables, text).to_pylist()
    return rows


def literal(at: datetime) -> str:
    """Return an instant as SQL has it."""
    return f"TIMESTAMP '{at.astimezone(UTC).isoformat()}'"


def _step(first: datetime | None, last: datetime | None) -> timedelta:
    if first is None or last is None:
        return timedelta(minutes=1)
    length = last - first + timedelta(minutes=1)
    if length <= SHORT:
        return timedelta(seconds=-(-length.total_seconds() // POINTS))
    return timedelta(minutes=max(1, -(-length.total_seconds() // 60 // POINTS)))
