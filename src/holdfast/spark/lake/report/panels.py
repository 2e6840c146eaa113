"""The charts of a report, as lines of values; how they are drawn is another matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .period import EPOCH, Period
from .queries import Row
from .report import LakeReport

QUEUES_SHOWN = 6
"""So many queues have charts of their own; all of them are in the first ones, and in the tables."""
Unit = Literal["count", "duration", "share", "number"]


@dataclass(frozen=True)
class PanelLine:
    """One named line: a value for each step, `None` where there is none."""

    name: str
    colour: Literal["good", "odd", "bad", "calm", "dark"]
    values: Sequence[float | None]


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    bars: bool
    """Bars that stand on each other; else lines."""
    unit: Unit
    lines: tuple[PanelLine, ...]


_Wanted = tuple[tuple[str, Literal["good", "odd", "bad", "calm", "dark"], str], ...]
JOBS: _Wanted = (
    ("completed", "good", "completed"), ("retried", "odd", "retried"), ("stalled", "dark", "reaped"),
    ("failed", "bad", "failed"),
)  # fmt: skip
WAITS: _Wanted = (("p50", "calm", "wait_p50_ms"), ("p90", "odd", "wait_p90_ms"), ("p99", "bad", "wait_p99_ms"))
RUNS: _Wanted = (("p50", "calm", "run_p50_ms"), ("p90", "odd", "run_p90_ms"), ("p99", "bad", "run_p99_ms"))


def panels(report: LakeReport) -> list[Panel]:
    """Return the charts: of all queues together, of the workers, and of the queues with most jobs."""
    period = report.period
    if period is None:
        return []
    by_queue: dict[str | None, list[Row]] = {}
    for row in report.series:
        by_queue.setdefault(row["queue"], []).append(row)
    made = _of_queue(
        period, "All queues" if len(report.queues) != 1 else report.queues[0]["queue"], by_queue.get(None, [])
    )
    made.append(Panel("All queues: attempts that went wrong", True, "share", (_rate(period, by_queue.get(None, [])),)))
    made.append(
        Panel(
            "Workers: attempts at once, on average",
            True,
            "number",
            _lines(period, report.busy, (("at work", "calm", "busy"),)),
        )
    )
    for row in report.queues[:QUEUES_SHOWN] if len(report.queues) > 1 else []:
        made += _of_queue(period, row["queue"], by_queue.get(row["queue"], []))
    return made


def highest(panel: Panel) -> float:
    """Return the highest value that is drawn."""
    if panel.bars:
        columns = zip(*(line.values for line in panel.lines), strict=True)
        return max((sum(value or 0 for value in column) for column in columns), default=0)
    return max((value for line in panel.lines for value in line.values if value is not None), default=0)


def _of_queue(period: Period, name: str, rows: Sequence[Row]) -> list[Panel]:
    return [
        Panel(f"{name}: jobs", True, "count", _lines(period, rows, JOBS)),
        Panel(f"{name}: open jobs", False, "count", _lines(period, rows, (("open", "calm", "open"),))),
        Panel(f"{name}: waits", False, "duration", _lines(period, rows, WAITS)),
        Panel(f"{name}: run times", False, "duration", _lines(period, rows, RUNS)),
    ]


def _rate(period: Period, rows: Sequence[Row]) -> PanelLine:
    shares = [{"at": row["at"], "share": row["wrong"] / row["ended"] if row.get("ended") else None} for row in rows]
    return _lines(period, shares, (("went wrong", "bad", "share"),))[0]


def _lines(period: Period, rows: Sequence[Row], wanted: _Wanted) -> tuple[PanelLine, ...]:
    values: dict[str, list[float | None]] = {column: [None] * period.steps for _, _, column in wanted}
    for row in rows:
        index = (row["at"] - EPOCH) // period.step - period.first_step
        for column, found in values.items():
            found[index] = row.get(column)
    return tuple(PanelLine(name, colour, values[column]) for name, colour, column in wanted)
