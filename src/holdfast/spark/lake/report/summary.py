"""What a report says at a glance: tiles, sentences, and the comparison with the previous period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from .change import Better, FigureChange, absolute, relative
from .form import count, duration, percent, when
from .report import LakeReport

MS = timedelta(milliseconds=1)
LATE, LATE_PART = timedelta(minutes=5), 0.05
"""A lake that is further behind the end of a period is told of."""
NONE = "\u2013"
"""What stands where there is no value."""


@dataclass(frozen=True)
class Tile:
    """One figure with its name, and how it compares."""

    title: str
    value: str
    tone: str = ""
    change: FigureChange | None = None


@dataclass(frozen=True)
class Compared:
    """One figure in both periods."""

    title: str
    now: str
    before: str
    change: FigureChange | None


_Figure = tuple[str, str, Callable[[float | None], str], Better]
FIGURES: tuple[_Figure, ...] = (
    ("jobs enqueued", "enqueued", count, "neither"),
    ("jobs completed", "completed", count, "neither"),
    ("jobs failed for good", "failed", count, "less"),
    ("attempts that went wrong", "wrong", count, "less"),
    ("share that went wrong", "wrong_rate", percent, "less"),
    ("attempts whose worker vanished", "stalled", count, "less"),
    ("time lost in them", "wrong_ms", duration, "less"),
    ("wait, median", "wait_p50_ms", duration, "less"),
    ("wait, 99 of 100", "wait_p99_ms", duration, "less"),
    ("run time, median", "run_p50_ms", duration, "less"),
    ("run time, 99 of 100", "run_p99_ms", duration, "less"),
)


def covered(report: LakeReport) -> str:
    """Return what the report is about: which time, and which queues."""
    chosen = "queues " + ", ".join(report.chosen) if report.chosen else "all queues"
    if report.period is None:
        asked = f" from {when(report.since)}" if report.since else ""
        return f"nothing has happened{asked}{f' up to {when(report.until)}' if report.until else ''} (UTC), {chosen}"
    return f"{when(report.period.since)} to {when(report.period.until)} (UTC), {chosen}"


def read_up_to(report: LakeReport) -> str:
    """Return how far the lake had been read."""
    return f"read up to {when(report.read_at)}" if report.read_at else "read up to nothing yet"


def tiles(report: LakeReport) -> list[Tile]:
    """Return the figures that are looked at first."""
    if not report.total:
        return []
    total = report.total
    open_jobs = sum(row["jobs"] for row in report.backlog)
    wrong = f"of attempts went wrong: {count(total['wrong'])}, {count(total['stalled'])} of them stalled"
    return [
        Tile("jobs completed", count(total["completed"]), "good", _change(report, "completed", "neither")),
        Tile("jobs failed for good", count(total["failed"]), _bad(total["failed"]), _change(report, "failed", "less")),
        Tile(wrong, percent(total["wrong_rate"]) or NONE, _bad(total["wrong"]), _compare(report, "wrong_rate", "less")),
        Tile("run time lost in them", duration(total["wrong_ms"]), "", _change(report, "wrong_ms", "less")),
        Tile("wait, 99 of 100", duration(total["wait_p99_ms"]) or NONE, "", _change(report, "wait_p99_ms", "less")),
        Tile("jobs open as of the last batch", count(open_jobs)),
    ]


def _bad(number: int) -> str:
    return "bad" if number else ""


def comparison(report: LakeReport) -> list[Compared]:
    """Return each figure of this period beside that of the previous one; empty when there is none."""
    if report.before is None:
        return []
    return [
        Compared(
            title, show(report.total[name]) or NONE, show(report.before[name]) or NONE, _compare(report, name, better)
        )
        for title, name, show, better in FIGURES
    ]


def no_comparison(report: LakeReport) -> str:
    """Return why there is no comparison, where one could be expected."""
    if report.period is None or report.since is None or report.before is not None:
        return ""
    return f"There is no comparison: the lake does not reach back to {when(report.period.before.since)}."


def late_warning(report: LakeReport) -> str:
    """Return that the end of the period was not read yet, where that would mislead; else nothing."""
    if report.period is None or report.until is None or report.read_at is None:
        return ""
    behind = report.period.until - report.read_at
    if behind <= max(LATE, report.period.length * LATE_PART):
        return ""
    return (
        f"The lake was read up to {when(report.read_at)} only, {duration(behind / MS)} before the end of this period."
    )


def gap_warning(report: LakeReport) -> str:
    """Return what the lake lacks, in a sentence; empty when it lacks nothing."""
    missing = sum(row["missing"] or 0 for row in report.gaps)
    resets = sum(row["missing"] is None for row in report.gaps)
    told = [f"{missing:,} events were trimmed before they were read"] if missing else []
    told += [f"the log was reset {'once' if resets == 1 else f'{resets:,} times'}"] if resets else []
    return f"This history has gaps: {', and '.join(told)}." if told else ""


def _compare(report: LakeReport, name: str, better: Better) -> FigureChange | None:
    if name.endswith("_rate"):
        return absolute(report.total[name], (report.before or {}).get(name), better)
    return _change(report, name, better)


def _change(report: LakeReport, name: str, better: Better) -> FigureChange | None:
    return relative(report.total[name], report.before[name], better) if report.before else None
