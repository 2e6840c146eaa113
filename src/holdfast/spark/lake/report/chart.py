"""Charts as inline SVG, without scripts or anything to load; their colours come from the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .columns import escaped

WIDTH, HEIGHT = 560, 190
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 10, 24
_NICE = (1, 2, 2.5, 5, 10)
Show = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """One named series: a value for each step, `None` where there is none."""

    name: str
    colour: str
    """The name of a colour of the page: `--good`, `--bad`, …"""
    values: Sequence[float | None]


@dataclass(frozen=True)
class Axis:
    """The time that a chart covers, in steps."""

    first: datetime
    step: timedelta
    count: int

    def x(self, index: float) -> float:
        """Return the x coordinate at which a step begins."""
        return LEFT + (WIDTH - LEFT - RIGHT) * index / max(1, self.count)

    def at(self, index: int) -> str:
        """Return a step's time, for people."""
        at = self.first + self.step * index
        if self.step < timedelta(minutes=1):
            return at.strftime("%H:%M:%S")
        return at.strftime("%H:%M" if self.step * self.count <= timedelta(days=1) else "%d %b %H:%M")


def bars(axis: Axis, series: Sequence[Series], show: Show = lambda value: f"{value:,.0f}") -> str:
    """Return stacked bars, one for each step."""
    sums = [sum(each.values[index] or 0 for each in series) for index in range(axis.count)]
    top = _top(max(sums, default=0))
    width = max(1.0, (axis.x(1) - axis.x(0)) * 0.82)
    drawn = []
    for index in range(axis.count):
        base = 0.0
        parts = []
        for each in series:
            value = each.values[index] or 0
            if value:
                high, low = _y(base + value, top), _y(base, top)
                parts.append(
                    f'<rect x="{axis.x(index):.1f}" y="{high:.1f}" width="{width:.1f}" height="{low - high:.1f}" '
                    f'fill="var({each.colour})"/>'
                )
            base += value
        if parts:
            told = ", ".join(f"{each.name} {show(each.values[index] or 0)}" for each in series)
            drawn.append(f"<g>{_title(axis, index, told)}{''.join(parts)}</g>")
    return _frame(axis, series, top, show, "".join(drawn))


def curves(axis: Axis, series: Sequence[Series], show: Show) -> str:
    """Return lines over time, broken where a value is missing."""
    known = [value for each in series for value in each.values if value is not None]
    top = _top(max(known, default=0))
    drawn = [_curve(axis, each, top, show) for each in series]
    return _frame(axis, series, top, show, "".join(drawn))


def _curve(axis: Axis, each: Series, top: float, show: Show) -> str:
    path, dots, pen = [], [], "M"
    for index, value in enumerate(each.values):
        if value is None:
            pen = "M"
            continue
        x, y = axis.x(index + 0.5), _y(value, top)
        path.append(f"{pen}{x:.1f} {y:.1f}")
        told = f"{each.name} {show(value)}"
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="var({each.colour})">{_title(axis, index, told)}</circle>'
        )
        pen = "L"
    stroke = f'<path d="{" ".join(path)}" fill="none" stroke="var({each.colour})" stroke-width="1.6"/>'
    return stroke + "".join(dots)


def _frame(axis: Axis, series: Sequence[Series], top: float, show: Show, inside: str) -> str:
    grid = []
    for part in range(5):
        value = top * part / 4
        y = _y(value, top)
        grid.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        grid.append(f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" class="tick end">{escaped(show(value))}</text>')
    marks = sorted({0, axis.count // 3, 2 * axis.count // 3, axis.count - 1} & set(range(axis.count)))
    for index in marks:
        side = "" if index == 0 else " end" if index == axis.count - 1 and axis.count > 1 else " middle"
        x = axis.x(0) if index == 0 else axis.x(index + 1 if side == " end" else index + 0.5)
        grid.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" class="tick{side}">{axis.at(index)}</text>')
    legend = "".join(
        f'<span class="key"><i style="background:var({each.colour})"></i>{escaped(each.name)}</span>' for each in series
    )
    names = escaped(", ".join(each.name for each in series))
    drawn = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{names}">{"".join(grid)}{inside}</svg>'
    return f'<div class="legend">{legend}</div>{drawn}'


def _title(axis: Axis, index: int, told: str) -> str:
    return f"<title>{axis.at(index)}: {escaped(told)}</title>"


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def _top(value: float) -> float:
    """Return a round number at or above the highest value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(nice * power for nice in _NICE if nice * power >= value)
