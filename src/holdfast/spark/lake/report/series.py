"""A report's figures over time: one row for each step, of each queue and of all together."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from .period import EPOCH, MINUTE, Period
from .queries import Figures, Row

COUNTS = ("enqueued", "completed", "failed", "retried", "stalled")


def queues_over_time(figures: Figures, period: Period, read_at: datetime | None) -> list[Row]:
    """Return what happened in each step: counts, percentiles, and how many jobs were open at its end."""
    found: dict[tuple[str | None, int], Row] = defaultdict(dict)
    for row in figures.rows("series" if period.step >= MINUTE else "moments", period):
        for name in COUNTS:
            found[row["queue"], row["step"]][name] = row[name]
            found[None, row["step"]][name] = found[None, row["step"]].get(name, 0) + row[name]
    for name in ("waits", "runs"):
        for row in figures.rows(name, period):
            found[row["queue"], row["step"]].update(row)
    for (queue, step), open_jobs in _open(figures, period, read_at).items():
        found[queue, step]["open"] = open_jobs
    ordered = sorted(found, key=lambda key: (key[0] or "", key[1]))
    return [{"queue": queue, "at": _at(period, step), **_told(found[queue, step])} for queue, step in ordered]


def busy_over_time(figures: Figures, period: Period, read_at: datetime | None) -> list[Row]:
    """Return how many attempts ran at once in each step, on average."""
    rows = figures.rows("running", period, read_at)
    return [{"at": _at(period, row.pop("step")), **row} for row in sorted(rows, key=lambda row: row["step"])]


def _open(figures: Figures, period: Period, read_at: datetime | None) -> dict[tuple[str | None, int], int]:
    """Return how many jobs were open at the end of each step that the lake has read."""
    changes: dict[str | None, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in figures.rows("flows", period):
        for queue in (row["queue"], None):
            changes[queue][row["step"]] += row["change"]
    steps = range(period.first_step, period.first_step + period.steps)
    read = [step for step in steps if read_at is None or _at(period, step) <= read_at]
    found: dict[tuple[str | None, int], int] = {}
    for queue, steps_of_it in changes.items():
        level = 0
        for step in read:
            level += steps_of_it.get(step, 0)
            found[queue, step] = level
    return found


def _at(period: Period, step: int) -> datetime:
    return EPOCH + period.step * step


def _told(row: Row) -> Row:
    told = dict.fromkeys(COUNTS, 0) | row
    return {name: value for name, value in told.items() if name not in ("queue", "step")}
