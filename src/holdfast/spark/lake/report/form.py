"""How a report's values look: durations, shares, counts, instants, and text that comes from jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from ....core.visible import visible


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
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= size:
            return f"{_short(ms / size)} {unit}"
    return f"{_short(ms) if ms >= 10 or ms == round(ms) else f'{ms:.1f}'} ms"


def percent(value: float | None) -> str:
    """Return a share of one as a percentage."""
    if value is None:
        return ""
    return f"{100 * value:.1f} %" if value == 0 or value >= 0.0005 else "< 0.1 %"


def ratio(value: float | None) -> str:
    """Return a number with two decimals."""
    return "" if value is None else f"{value:.2f}"


def count(value: float | None) -> str:
    """Return a number of things."""
    return f"{value or 0:,.0f}"


def aware(at: datetime) -> datetime:
    """Return an instant with its time zone: the tables have UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _short(value: float) -> str:
    """Return a number with one decimal where that tells something: 1.5, 2, 340."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")
