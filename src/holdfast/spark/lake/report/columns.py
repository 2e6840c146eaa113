"""The columns of a report's tables, and how their values look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from html import escape

from ....core.visible import visible
from .report import Row

Column = tuple[str, Callable[[Row], str | None]]
"""A title, and the text of a row."""


def escaped(value: str) -> str:
    """Return text for a page: without markup, invisible characters and changes of direction."""
    return escape(visible(value))


def when(at: datetime | None) -> str:
    """Return an instant for people."""
    return "" if at is None else f"{aware(at):%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def duration(ms: float | None) -> str:
    """Return a duration for people."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def percent(value: float | None) -> str:
    """Return a share of one as a percentage."""
    return "" if value is None else f"{100 * value:.1f} %"


def ratio(value: float | None) -> str:
    """Return a number with two decimals."""
    return "" if value is None else f"{value:.2f}"


def count(value: int | None) -> str:
    """Return a number of things."""
    return f"{value or 0:,}"


def aware(at: datetime) -> datetime:
    """Return an instant with its time zone: the tables have UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


QUEUES: tuple[Column, ...] = (
    ("queue", lambda row: row["queue"]),
    ("enqueued", lambda row: count(row["enqueued"])),
    ("completed", lambda row: count(row["completed"])),
    ("failed", lambda row: count(row["failed"])),
    ("cancelled", lambda row: count(row["cancelled"])),
    ("retried", lambda row: count(row["retried"])),
    ("stalled", lambda row: count(row["stalled"])),
    ("went wrong", lambda row: percent(row["failure_rate"])),
    ("wait p50", lambda row: duration(row["wait_p50_ms"])),
    ("wait p99", lambda row: duration(row["wait_p99_ms"])),
    ("oldest", lambda row: duration(row["oldest_ms"])),
    ("run p50", lambda row: duration(row["run_p50_ms"])),
    ("run p99", lambda row: duration(row["run_p99_ms"])),
    ("fairness", lambda row: ratio(row["fairness"])),
)
BACKLOG: tuple[Column, ...] = (
    ("queue", lambda row: row["queue"]),
    ("state", lambda row: row["state"]),
    ("jobs", lambda row: count(row["jobs"])),
    ("oldest since", lambda row: when(row["since"])),
)
ERRORS: tuple[Column, ...] = (
    ("queue", lambda row: row["queue"]),
    ("error", lambda row: row["error_type"]),
    ("task", lambda row: row["task"]),
    ("signature", lambda row: row["error_signature"]),
    ("count", lambda row: count(row["count"])),
    ("last seen", lambda row: when(row["last"])),
    ("for example", lambda row: row["example"]),
)
TENANTS: tuple[Column, ...] = (
    ("queue", lambda row: row["queue"]),
    ("key", lambda row: row["key"]),
    ("started", lambda row: count(row["started"])),
    ("completed", lambda row: count(row["completed"])),
    ("failed", lambda row: count(row["failed"])),
    ("mean wait", lambda row: duration(row["wait_mean_ms"])),
    ("longest wait", lambda row: duration(row["wait_max_ms"])),
    ("time run", lambda row: duration(row["ran_ms"])),
)
WORKERS: tuple[Column, ...] = (
    ("worker", lambda row: row["worker"]),
    ("attempts", lambda row: count(row["ended"])),
    ("time run", lambda row: duration(row["busy_ms"])),
    ("slots at work", lambda row: ratio(row["busy"])),
    ("minutes", lambda row: count(row["minutes"])),
)
