"""The report of a lake over a stretch of time: tables, series and totals. It needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ..opening import open_tables
from ..storage.location import LakeLocation
from .period import MINUTE, Period, asked
from .queries import Figures, Row
from .series import busy_over_time, queues_over_time

ERRORS = 20
MANY_ERRORS = 1_000
"""Of so many kinds of error the previous count is looked for."""


@dataclass(frozen=True)
class LakeReport:
    """Everything that a report shows. Rows are dicts with the columns that the reference names."""

    path: str
    since: datetime | None
    """What was asked for; `None` is the beginning of the lake."""
    until: datetime | None
    chosen: tuple[str, ...]
    """The queues that were asked for; empty for all."""
    first: datetime | None
    """The first minute with an event, of the period and of these queues."""
    last: datetime | None
    period: Period | None
    """What the charts cover; `None` when nothing has happened."""
    step: timedelta
    """How long one point of a chart is."""
    read_at: datetime | None
    """When the last batch was planned."""
    total: Row
    before: Row | None
    """The total of the previous period; `None` when the lake does not have it all, or no period was asked for."""
    queues: list[Row]
    backlog: list[Row]
    errors: list[Row]
    retries: list[Row]
    tenants: list[Row]
    fairness: list[Row]
    workers: list[Row]
    series: list[Row]
    """Each queue at each step, and all queues in the rows without a queue."""
    busy: list[Row]
    gaps: list[Row]


def make_report(
    path: str | Path | LakeLocation,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
) -> LakeReport:
    """Return what happened in a stretch of time and in some queues, or all of it."""
    begin, end = asked(since, until)
    figures = Figures(open_tables(path, read_only=True), tuple(queues))
    first, last = figures.span(begin, end)
    read_at = figures.read_at()
    found = (begin, end, tuple(queues), first, last)
    if first is None or last is None:
        return _nothing(str(path), found, read_at, figures)
    period = Period(begin or first, end or last + MINUTE)
    before = period.before if begin is not None and figures.reaches(period.before.since) else None
    total, *rows = _compared(figures, period, before)
    return LakeReport(
        str(path), *found, period, period.step, read_at, total, total.pop("before"), queues=rows,
        backlog=figures.rows("backlog", None), errors=_errors(figures, period, before),
        retries=figures.rows("retries", period), tenants=figures.rows("tenants", period),
        fairness=figures.rows("fairness", period), workers=figures.rows("workers", period, read_at),
        series=queues_over_time(figures, period, read_at),
        busy=busy_over_time(figures, period, read_at), gaps=figures.rows("gaps", None),
    )  # fmt: skip


def _compared(figures: Figures, period: Period, before: Period | None) -> list[Row]:
    """Return the total and each queue, with the same figures of the previous period as `before`."""
    then = {row["queue"]: row for row in figures.rows("queues", before)} if before else {}
    return [{**row, "before": then.get(row["queue"])} for row in figures.rows("queues", period)]


def _errors(figures: Figures, period: Period, before: Period | None) -> list[Row]:
    """Return the most frequent errors, each with a message if one is known, and how often it came before."""
    then = figures.rows("errors", before, most=MANY_ERRORS) if before else []
    counts = {(row["queue"], row["error_signature"]): row["count"] for row in then}
    complete = before is not None and len(then) < MANY_ERRORS
    found = figures.rows("errors", period, most=ERRORS)
    messages = figures.messages([row["error_signature"] for row in found])
    return [
        {
            **row,
            "message": messages.get(row["error_signature"]),
            "before": counts.get((row["queue"], row["error_signature"]), 0 if complete else None),
        }
        for row in found
    ]


def _nothing(
    path: str,
    found: tuple[datetime | None, datetime | None, tuple[str, ...], datetime | None, datetime | None],
    read_at: datetime | None,
    figures: Figures,
) -> LakeReport:
    gaps = figures.rows("gaps", None)
    backlog = figures.rows("backlog", None)
    return LakeReport(path, *found, None, MINUTE, read_at, {}, None, [], backlog, [], [], [], [], [], [], [], gaps)
