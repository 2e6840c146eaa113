"""The queries of a report: SQL files, filled in for a period and some queues."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

from ..delta_table import LakeTable, query
from .period import EPOCH, Period

Row = dict[str, Any]  # a row of a table, whose columns the SQL names
RAN = "run_ms IS NOT NULL AND outcome <> 'dropped'"
"""The attempts whose end is known."""
WRONG = "outcome IN ('retried', 'failed', 'stalled')"
"""The attempts that went wrong: they raised, timed out, lost their worker, or ended their job in failure."""
_STEPPED = ("at", "minute", "started_at", "ended_at", "enqueued_at", "finished_at")


class Figures:
    """Asks the tables of a lake, about all queues or some."""

    def __init__(self, tables: Mapping[str, LakeTable], chosen: tuple[str, ...]) -> None:
        self._tables = tables
        self._chosen = f"queue IN ({', '.join(map(text_literal, chosen))})" if chosen else "TRUE"

    def rows(self, name: str, period: Period | None, read_at: datetime | None = None, most: int = 20) -> list[Row]:
        """Return the rows of a query; attempts that are still running are counted up to `read_at`."""
        values = {"chosen": self._chosen, "ran": RAN, "wrong": WRONG, "most": str(most)}
        if period is not None:
            values |= _instants(period, read_at or period.until)
        return self._ask(_statement(name).format(**values))

    def span(self, since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
        """Return the first and the last minute with an event in a stretch of time."""
        asked = [f"minute >= {literal(since)}"] if since else []
        asked += [f"minute < {literal(until)}"] if until else []
        where = " AND ".join([self._chosen, *asked])
        found = self._ask(f"SELECT min(minute) AS first, max(minute) AS last FROM minutes WHERE {where}")
        return (found[0]["first"], found[0]["last"]) if found else (None, None)

    def reaches(self, at: datetime) -> bool:
        """Return whether the lake begins at `at` or before."""
        return bool(self._ask(f"SELECT 1 FROM minutes WHERE minute <= {literal(at)} LIMIT 1"))

    def read_at(self) -> datetime | None:
        """Return when the last batch was planned."""
        found = self._ask("SELECT max(planned_at) AS at FROM batches")
        return found[0]["at"] if found else None

    def messages(self, signatures: Sequence[str]) -> dict[str, str]:
        """Return a message of each kind of error of which one is known."""
        if not signatures:
            return {}
        wanted = ", ".join(map(text_literal, signatures))
        rows = self._ask(
            f"SELECT error_signature, message FROM messages WHERE error_signature IN ({wanted}) ORDER BY seen_at"
        )
        return {row["error_signature"]: row["message"] for row in rows}

    def _ask(self, sql: str) -> list[Row]:
        """Return the rows of a SELECT; none where a table is missing, as in a lake of an older version."""
        needed = {name: table for name, table in self._tables.items() if re.search(rf"\b{name}\b", sql)}
        if not all(table.exists for table in needed.values()):
            return []
        return plain_rows(query(needed, sql))


@cache
def _statement(name: str) -> str:
    return files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")


def _instants(period: Period, read_at: datetime) -> dict[str, str]:
    step = int(period.step.total_seconds())
    steps = {
        f"{column.removesuffix('_at')}_step": f"CAST(floor(date_part('epoch', {column}) / {step}) AS bigint)"
        for column in _STEPPED
    }
    end = min(period.until, max(read_at, period.since))
    return {
        "since": literal(period.since), "until": literal(period.until), "day": f"DATE '{period.since:%Y-%m-%d}'",
        "since_us": str(_us(period.since)), "until_us": str(_us(end)), "step_us": str(step * 1_000_000),
        "began_us": "coalesce(CAST(started_at AS bigint), CAST(ended_at AS bigint) - run_ms * 1000)",
        "ended_us": f"coalesce(CAST(ended_at AS bigint), {_us(end)})",
        "first_step": str(period.first_step), **steps,
    }  # fmt: skip


def plain_rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table. Arrow itself imports pandas for instants, which takes longer than a whole report."""
    columns = [_values(table.column(name), table.schema.field(name).type) for name in table.column_names]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray, type: pa.DataType) -> list[Any]:
    if not pa.types.is_timestamp(type):
        return list(column.to_pylist())
    numbers = column.cast(pa.timestamp("us", type.tz)).cast(pa.int64()).to_pylist()
    return [None if number is None else EPOCH + timedelta(microseconds=number) for number in numbers]


def literal(at: datetime) -> str:
    """Return an instant as an SQL literal."""
    return f"TIMESTAMP '{at.astimezone(UTC).isoformat()}'"


def text_literal(text: str) -> str:
    """Return text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _us(at: datetime) -> int:
    past = at - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds
