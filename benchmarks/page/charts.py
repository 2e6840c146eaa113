"""The kinds of charts that the page has: bars, distributions, and lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.page.svg import WIDTH, Canvas

LABELS = 170
"""Where the bars begin; to the left of it stand the names."""
VALUES = 150
"""Room for the figures, at the right."""
ROW = 24
TOP = 44


@dataclass(frozen=True)
class Bar:
    """A row: parts that stand behind each other, and the words for them."""

    name: str
    parts: tuple[float, ...]
    words: str
    ours: bool


def bars(title: str, about: str, groups: Mapping[str, Sequence[Bar]]) -> str:
    """Rows under a heading for each group, every group to its own scale."""
    canvas, y = Canvas(title, about), float(TOP)
    for heading, rows in groups.items():
        most = max((sum(row.parts) for row in rows), default=0) or 1
        canvas.text(16, y + 12, heading, "small")
        y += ROW
        for row in rows:
            y = _row(canvas, row, y, (WIDTH - LABELS - VALUES) / most)
        y += ROW / 2
    return canvas.picture(y + 4)


def _row(canvas: Canvas, row: Bar, y: float, scale: float) -> float:
    x = float(LABELS)
    canvas.text(LABELS - 8, y + 13, row.name, "end")
    for index, part in enumerate(row.parts):
        style = f"fill-{(0 if row.ours else 1) if index == 0 else 2}"
        canvas.bar(x, y + 3, part * scale, ROW - 9, style)
        x += part * scale
    canvas.text(x + 6, y + 13, row.words)
    return y + ROW


@dataclass(frozen=True)
class Spread:
    """A distribution: its quantiles by per cent."""

    name: str
    cuts: Mapping[int, float]
    ours: bool


def spreads(title: str, about: str, unit: str, groups: Mapping[str, Sequence[Spread]]) -> str:
    """From the 5th to the 95th per cent a line, the middle half a bar, the 99th a dot; the scale is logarithmic."""
    canvas, y = Canvas(title, about), float(TOP)
    values = [value for rows in groups.values() for row in rows for value in row.cuts.values() if value > 0]
    low, high = _decades(values)
    width = WIDTH - LABELS - VALUES

    def place(value: float) -> float:
        return LABELS + width * (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))

    for heading, rows in groups.items():
        canvas.text(16, y + 12, heading, "small")
        y += ROW
        for row in rows:
            canvas.text(LABELS - 8, y + 13, row.name, "end")
            style = 0 if row.ours else 1
            canvas.line(place(row.cuts[5]), y + 9, place(row.cuts[95]), y + 9, f"line-{style * 3}")
            canvas.bar(place(row.cuts[25]), y + 4, place(row.cuts[75]) - place(row.cuts[25]), 10, f"fill-{style}")
            canvas.line(place(row.cuts[50]), y + 1, place(row.cuts[50]), y + 17, f"line-{style * 3}")
            canvas.dot(place(row.cuts[99]), y + 9, f"fill-{style}")
            canvas.text(WIDTH - VALUES + 16, y + 13, f"{row.cuts[50]:,.2f} · {row.cuts[99]:,.1f} {unit}", "small")
            y += ROW
        y += ROW / 2
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        canvas.line(place(10**power), TOP, place(10**power), y, "grid")
        canvas.text(place(10**power), y + 14, f"{10**power:g} {unit}", "small middle")
    return canvas.picture(y + 26)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Powers of ten round all values."""
    if not values:
        return 1.0, 10.0
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def lines(title: str, about: str, unit: str, ticks: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """A line for each name over the same ticks, from zero."""
    canvas, height = Canvas(title, about), 200.0
    most = round_above(max((value for values in series.values() for value in values), default=0))
    width, bottom = WIDTH - LABELS / 2 - VALUES, TOP + height

    def at(index: int, value: float) -> tuple[float, float]:
        return LABELS / 2 + width * index / max(1, len(ticks) - 1), bottom - height * value / most

    for share in (0, 0.5, 1):
        y = bottom - height * share
        canvas.line(LABELS / 2, y, LABELS / 2 + width, y, "grid")
        canvas.text(LABELS / 2 - 6, y + 4, f"{most * share:,.4g}", "small end")
    for index, tick in enumerate(ticks):
        canvas.text(at(index, 0)[0], bottom + 16, tick, "small middle")
    for number, values in enumerate(series.values()):
        points = [at(index, value) for index, value in enumerate(values)]
        canvas.path(points, f"line-{number % 4}")
        for point in points:
            canvas.dot(*point, f"fill-{(0, 3, 2, 1)[number % 4]}")
    for y, name in _apart(series, lambda value: at(0, value)[1]):
        canvas.text(LABELS / 2 + width + 10, y + 4, name)
    canvas.text(16, bottom + 34, unit, "small")
    return canvas.picture(bottom + 46)


def round_above(value: float) -> float:
    """The end of an axis: a round number that is not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * (1 - 1e-9))


def _apart(series: Mapping[str, Sequence[float]], height: Callable[[float], float]) -> list[tuple[float, str]]:
    """The names at the ends of their lines, so far apart that they can be read."""
    placed: list[tuple[float, str]] = []
    for y, name in sorted((height(values[-1]), name) for name, values in series.items() if values):
        placed.append((max(y, placed[-1][0] + 15) if placed else y, name))
    return placed
