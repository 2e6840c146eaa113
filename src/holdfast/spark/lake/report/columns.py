"""The columns of a report's tables: what each shows of a row, and how it compares with the previous period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .change import Better, FigureChange, absolute, relative
from .form import count, duration, percent, ratio, when
from .queries import Row


@dataclass(frozen=True)
class ReportColumn:
    """A title, and the text of a row."""

    title: str
    text: Callable[[Row], str | None]
    words: bool = False
    """Text, which is aligned to the left and may be broken."""
    spare: bool = False
    """It may be left out where room is short."""
    change: Callable[[Row], FigureChange | None] = lambda row: None


def _word(title: str, name: str, spare: bool = False) -> ReportColumn:
    return ReportColumn(title, lambda row: row[name], words=True, spare=spare)


def _number(
    title: str,
    name: str,
    better: Better | None = None,
    spare: bool = False,
    show: Callable[[float | None], str] = count,
) -> ReportColumn:
    def change(row: Row) -> FigureChange | None:
        before = row.get("before")
        if better is None or before is None:
            return None
        return relative(row[name], before[name] if isinstance(before, dict) else before, better)

    return ReportColumn(title, lambda row: show(row[name]), spare=spare, change=change)


def _time(title: str, name: str, better: Better | None = None, spare: bool = False) -> ReportColumn:
    return _number(title, name, better, spare, duration)


def _share(title: str, name: str, better: Better | None = None, spare: bool = False) -> ReportColumn:
    def change(row: Row) -> FigureChange | None:
        before = row.get("before")
        return absolute(row[name], before[name], better) if better and before else None

    return ReportColumn(title, lambda row: percent(row[name]), spare=spare, change=change)


def _error_text(row: Row) -> str:
    kind, message = row["error_type"] or "error", row.get("message")
    return f"{kind}: {message}" if message else str(kind)


QUEUES = (
    _word("queue", "queue"),
    _number("completed", "completed", "neither"),
    _number("failed", "failed", "less"),
    _share("went wrong", "wrong_rate", "less"),
    _time("wait p50", "wait_p50_ms", spare=True),
    _time("wait p99", "wait_p99_ms", "less"),
    _time("run p50", "run_p50_ms", spare=True),
    _time("run p99", "run_p99_ms", "less"),
    _number("enqueued", "enqueued", "neither", spare=True),
    _number("retried", "retried", spare=True),
    _number("stalled", "stalled", "less", spare=True),
    _time("time lost", "wrong_ms", spare=True),
)
BACKLOG = (
    _word("queue", "queue"),
    _word("state", "state"),
    _number("jobs", "jobs"),
    ReportColumn("oldest since", lambda row: when(row["since"])),
)
ERRORS = (
    _word("queue", "queue"),
    ReportColumn("error", _error_text, words=True),
    _number("count", "count", "less"),
    _word("task", "task", spare=True),
    ReportColumn("last seen", lambda row: when(row["last"]), spare=True),
    _word("for example", "example", spare=True),
)
RETRIES = (
    _word("queue", "queue"),
    _word("task", "task"),
    _number("attempts", "ended"),
    _number("went wrong", "wrong"),
    _time("time lost", "wrong_ms"),
    _share("of all run time", "wrong_share"),
    _number("retried", "retried", spare=True),
    _number("failed", "failed", spare=True),
    _number("stalled", "stalled", spare=True),
)
TENANTS = (
    _word("queue", "queue"),
    _word("tenant", "key"),
    _number("started", "started"),
    _share("share", "share"),
    _time("mean wait", "wait_mean_ms"),
    _time("longest wait", "wait_max_ms", spare=True),
    _number("completed", "completed", spare=True),
    _number("failed", "failed", spare=True),
    _time("time run", "ran_ms", spare=True),
)
FAIRNESS = (
    _word("queue", "queue"),
    _number("tenants", "keys"),
    ReportColumn("even starts", lambda row: ratio(row["fairness"])),
    ReportColumn("even waits", lambda row: ratio(row["wait_fairness"])),
    ReportColumn("most starts", lambda row: f"{row['largest']}: {percent(row['largest_share'])}", words=True),
    ReportColumn("longest mean wait", lambda row: f"{row['slowest']}: {duration(row['slowest_ms'])}", words=True),
)
WORKERS = (
    _word("worker", "worker"),
    _number("attempts", "ended"),
    _time("time run", "busy_ms"),
    _number("slots used", "slots"),
    _share("utilisation", "utilisation"),
)
