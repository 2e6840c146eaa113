"""Charts as inline SVG, without scripts or anything to load; their colours come from the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .form import count, duration, escaped, percent, ratio
from .panels import Panel, PanelLine, Unit, highest
from .period import EPOCH, Period
from .ticks import tick_label, time_ticks, value_ticks

WIDTH, HEIGHT = 560, 200
LEFT, RIGHT, TOP, BOTTOM = 68, 12, 10, 26
_SHOW: dict[Unit, Callable[[float], str]] = {"count": count, "duration": duration, "share": percent, "number": ratio}


@dataclass(frozen=True)
class _Plane:
    """Where times and values lie in a chart."""

    first: datetime
    step: timedelta
    steps: int
    ticks: Sequence[float]

    @classmethod
    def of(cls, period: Period, panel: Panel) -> _Plane:
        first = EPOCH + period.step * period.first_step
        return cls(first, period.step, period.steps, value_ticks(highest(panel), panel.unit))

    def x(self, index: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * index / self.steps

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / self.ticks[-1])

    def at(self, index: int) -> str:
        at = self.first + self.step * index
        return f"{at:%H:%M:%S}" if self.step < timedelta(minutes=1) else f"{at:%Y-%m-%d %H:%M}"


def draw(period: Period, panel: Panel) -> str:
    """Return a chart with its legend."""
    plane = _Plane.of(period, panel)
    drawn = _bars(plane, panel) if panel.bars else "".join(_curve(plane, line) for line in panel.lines)
    legend = "".join(
        f'<span class="key"><i class="{line.colour}"></i>{escaped(line.name)}</span>' for line in panel.lines
    )
    picture = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(panel.title)}">'
        f"{_grid(plane, panel)}{drawn}{_hits(plane, panel)}</svg>"
    )
    return f'<div class="legend">{legend}</div>{picture}'


def _bars(plane: _Plane, panel: Panel) -> str:
    wide = plane.x(1) - plane.x(0)
    gap = min(2.0, wide * 0.18)
    drawn = []
    floors = [0.0] * plane.steps
    for line in panel.lines:
        for index, value in enumerate(line.values):
            if value:
                high, low = plane.y(floors[index] + value), plane.y(floors[index])
                drawn.append(
                    f'<rect x="{plane.x(index) + gap / 2:.1f}" y="{high:.1f}" width="{wide - gap:.1f}" '
                    f'height="{low - high:.1f}" class="{line.colour}"/>'
                )
                floors[index] += value
    return "".join(drawn)


def _curve(plane: _Plane, line: PanelLine) -> str:
    """Return a line that is broken where a value is missing; a value between two missing ones is a dot."""
    path, dots, pen = [], [], "M"
    for index, value in enumerate(line.values):
        if value is None:
            pen = "M"
            continue
        x, y = plane.x(index + 0.5), plane.y(value)
        path.append(f"{pen}{x:.1f} {y:.1f}")
        if pen == "M" and (index + 1 == len(line.values) or line.values[index + 1] is None):
            dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" class="{line.colour}"/>')
        pen = "L"
    return f'<path d="{"".join(path)}" class="line {line.colour}"/>{"".join(dots)}'


def _grid(plane: _Plane, panel: Panel) -> str:
    drawn = []
    for value in plane.ticks:
        y = plane.y(value)
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        label = tick_label(value, plane.ticks, panel.unit)
        drawn.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" class="tick end">{label}</text>')
    end = plane.first + plane.step * plane.steps
    for at, label in time_ticks(plane.first, end):
        x = plane.x((at - plane.first) / plane.step)
        drawn.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}" class="grid"/>'
        )
        side = "end" if x > WIDTH - RIGHT - 16 else "middle"
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" class="tick {side}">{label}</text>')
    return "".join(drawn)


def _hits(plane: _Plane, panel: Panel) -> str:
    """Return what the pointer meets: a field for each step, with all its values."""
    show = _SHOW[panel.unit]
    drawn = []
    for index in range(plane.steps):
        told = [(line.name, line.values[index]) for line in panel.lines]
        words = ", ".join(f"{name} {show(value)}" for name, value in told if value is not None)
        if words:
            x, wide = plane.x(index), plane.x(index + 1) - plane.x(index)
            drawn.append(
                f'<rect x="{x:.1f}" y="{TOP}" width="{wide:.1f}" height="{HEIGHT - TOP - BOTTOM}" class="hit">'
                f"<title>{plane.at(index)}: {escaped(words)}</title></rect>"
            )
    return "".join(drawn)
