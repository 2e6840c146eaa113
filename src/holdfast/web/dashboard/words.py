"""How values look on a page: numbers, durations, instants and the text of jobs, which may hold anything."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup, escape

from ...core.duration import LATEST_MS
from ...core.limit import Rate
from ...core.visible import visible_lines

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))
NONE = "\u2013"
"""What stands where there is no value."""
MOST_SHOWN = 64 * 1024
"""So many characters of a payload, a result or a traceback are on a page; the rest can be downloaded."""


def lines(text: str) -> Markup:
    """Return text whose lines stay lines, for a `<pre>`."""
    return escape(visible_lines(text))


def count(value: float | None) -> str:
    """Return a number of things: `12,345`."""
    return "" if value is None else f"{value:,.0f}"


def short_count(value: float | None) -> str:
    """Return a number of things in few characters: `1.2M`."""
    if value is None:
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            shown = value / (1e3 if unit == "k" else size)
            return f"{shown:.0f}{unit}" if shown >= 100 else f"{shown:.1f}{unit}"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Return a number per second: `41/s`."""
    if value is None:
        return ""
    if value == 0:
        return "0/s"
    return f"{value:,.0f}/s" if value >= 10 else f"{value:.1f}/s" if value >= 0.1 else f"{value * 60:.1f}/min"


def duration(ms: float | None) -> str:
    """Return a duration: `12 ms`, `3.4 s`, `5 min 12 s`, `2 h 5 min`."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms" if ms >= 1 or ms <= 0 else "<1 ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s" if ms < 9_950 else f"{ms / 1000:.0f} s"
    for number, (size, unit) in enumerate(_UNITS):
        if ms >= size:
            below, name = ((1000, "s"), *reversed(_UNITS))[len(_UNITS) - 1 - number]
            rest = int(ms % size // below)
            return f"{int(ms // size)} {unit}" + (f" {rest} {name}" if rest else "")
    return ""


def per_time(rate: Rate) -> str:
    """Return a rate as the form of a queue takes it: `10/s`, `100/min`, `3/90s burst 20`."""
    per, unit = rate.per, "s"
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if per % size == 0:
            per, unit = per / size, name
            break
    burst = "" if rate.burst is None else f" burst {rate.burst}"
    return f"{_decimal(rate.count)}/{'' if per == 1 else _decimal(per)}{unit}{burst}"


def _decimal(value: float) -> str:
    """Return a number without an exponent, which forms do not take."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


def size(count: int) -> str:
    """Return a number of bytes: `1.4 MB`."""
    for unit_size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit_size:
            return f"{count / unit_size:.1f} {unit}"
    return f"{count} bytes"


def iso(ms: int) -> str:
    """Return an instant for machines, in UTC."""
    at = datetime.fromtimestamp(min(ms, LATEST_MS) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(ms: int | None) -> str:
    """Return an instant for people, in UTC."""
    return "" if ms is None else iso(ms).replace("T", " ").removesuffix("Z")


def time_of_day(ms: int, now_ms: int) -> str:
    """Return an instant for people, in UTC, without the date where that is today's."""
    at = clock(ms)
    return at[len("2026-11-15 ") :] if at[:10] == clock(now_ms)[:10] else at


def relative(ms: int | None, now_ms: int) -> str:
    """Return how far an instant is from now: `3 s ago`, `in 5 min`."""
    if ms is None:
        return ""
    gap = now_ms - ms
    if abs(gap) < 1000:
        return "now"
    text = duration(abs(gap) // 1000 * 1000).removesuffix(".0 s")
    text = text if text[-1].isalpha() else f"{text} s"
    return f"{text} ago" if gap > 0 else f"in {text}"


def moment(ms: int | None, now_ms: int) -> Markup:
    """Return an instant as an element that says both how long ago it was and when."""
    if ms is None:
        return Markup('<span class="none">{}</span>').format(NONE)
    return Markup('<time datetime="{}" title="{} UTC" data-ago>{}</time>').format(
        iso(ms), clock(ms), relative(ms, now_ms)
    )


def percent(value: float | None) -> str:
    """Return a share of one as a percentage; what is not the whole is never 100 %."""
    if value is None:
        return ""
    if 0.99 < value < 1:
        return "99 %"
    return f"{100 * value:.0f} %" if value >= 0.1 or value == 0 else f"{100 * value:.1f} %"
