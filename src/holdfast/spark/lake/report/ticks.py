"""Round numbers for the axes of charts: labels say exactly where their line is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from .panels import Unit
from .period import EPOCH, STEPS

MOST_LINES = 5
"""The most lines of a grid above zero."""
MOST_TIMES = 7
_MONDAY = EPOCH + timedelta(days=4)
_DURATIONS = [1, 2, 5, 10, 20, 50, 100, 200, 500]
_DURATIONS += [1000 * each for each in (1, 2, 5, 10, 15, 30)] + [60_000 * each for each in (1, 2, 5, 10, 15, 30)]
_DURATIONS += [3_600_000 * each for each in (1, 2, 3, 6, 12)]
_DAY_MS = 86_400_000
_TIME_UNITS = ((_DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_COUNT_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
_DAYS = [timedelta(days=each) for each in (1, 2, 7, 14)]
_MONTHS = (1, 2, 3, 6, 12)


def value_ticks(highest: float, unit: Unit) -> list[float]:
    """Return the values of the grid lines, from zero up to the first that is not below the highest value."""
    step = _value_step(highest, unit)
    return [step * number for number in range(max(1, math.ceil(highest / step - 1e-9)) + 1)]


def tick_label(value: float, ticks: Sequence[float], unit: Unit) -> str:
    """Return the label of a grid line, in the unit that suits all of them."""
    if value == 0:
        return "0"
    if unit == "share":
        return f"{100 * value:.6g} %"
    units = _TIME_UNITS if unit == "duration" else _COUNT_UNITS
    size, name = next(
        ((size, name) for size, name in units if size <= ticks[-1] and _is_whole(ticks[1] / size * 10)), units[-1]
    )
    return f"{value / size:.6g} {name}".rstrip()


def time_ticks(since: datetime, until: datetime) -> list[tuple[datetime, str]]:
    """Return round times within a period, with their labels."""
    length = until - since
    for step in [*STEPS[:-3], *_DAYS]:
        if length / step <= MOST_TIMES:
            return [(at, _time_label(at, step)) for at in _times(since, until, step)]
    return _months(since, until)


def _value_step(highest: float, unit: Unit) -> float:
    wanted = highest / MOST_LINES
    if unit == "duration" and wanted <= _DURATIONS[-1]:
        return next((step for step in _DURATIONS if step >= wanted), _DAY_MS)
    scale = _DAY_MS if unit == "duration" else 1
    least = {"count": 1.0, "share": 0.001, "number": 0.1, "duration": 1.0}[unit]
    wanted = max(wanted / scale, least)
    power = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return scale * next(nice * power for nice in (1, 2, 5, 10) if nice * power >= wanted * (1 - 1e-9))


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) < 1e-6 and round(value) > 0


def _times(since: datetime, until: datetime, step: timedelta) -> list[datetime]:
    origin = _MONDAY if step.days >= 7 else EPOCH
    first = origin + step * -((origin - since) // step)
    return [first + step * number for number in range(max(0, -((first - until) // step)))]


def _time_label(at: datetime, step: timedelta) -> str:
    if step < timedelta(minutes=1):
        return f"{at:%H:%M:%S}"
    midnight = at.hour == at.minute == 0
    return f"{at.day} {at:%b}" if midnight else f"{at:%H:%M}"


def _months(since: datetime, until: datetime) -> list[tuple[datetime, str]]:
    first, last = since.year * 12 + since.month, until.year * 12 + until.month - 1
    every = next(
        (each for each in _MONTHS if (last - first + 1) / each <= MOST_TIMES), 12 * max(1, (last - first) // 60)
    )
    numbers = [number for number in range(first, last + 1) if number % every == 0]
    starts = [since.replace(year=n // 12, month=n % 12 + 1, day=1, hour=0, minute=0) for n in numbers]
    return [(at, f"{at:%b %Y}") for at in starts if since <= at < until]
