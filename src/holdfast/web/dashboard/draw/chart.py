"""Charts: stacked bars and lines over time. Labels are HTML beside the SVG, so that they are readable at any width."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from ....core.visible import visible
from ..words import NONE, count

WIDTH, HEIGHT = 600, 120
_NICE = (1, 2, 2.5, 5, 10)
Values = Sequence[float | None]


@dataclass(frozen=True)
class Line:
    """One named line of a chart, with the colour that its class has in the style sheet."""

    name: str
    colour: str
    values: Values


@dataclass(frozen=True)
class Plot:
    """A chart, ready for its template."""

    svg: Markup
    title: str
    label: str
    """What a reader who does not see it is told."""
    ticks: tuple[str, ...]
    """The labels of the axis, from the highest down."""
    lines: tuple[Line, ...]
    points: str = field(repr=False)
    """The values as JSON, which the script shows under the pointer."""
    latest: tuple[str, ...] = ()
    span: str = ""


@dataclass(frozen=True)
class PlotAxis:
    """The values of the lines of the grid, evenly from zero up, with their labels."""

    values: Sequence[float]
    labels: Sequence[str]


def stacked(
    title: str, lines: Sequence[Line], span: str, show: Callable[[float], str] = count, axis: PlotAxis | None = None
) -> Plot:
    """Return a chart of bars, whose parts stand on each other."""
    columns = list(zip(*(line.values for line in lines), strict=True))
    axis = axis or _axis(max((sum(each or 0 for each in column) for column in columns), default=0), show)
    top = axis.values[-1]
    wide = WIDTH / max(1, len(columns))
    parts: list[Markup] = []
    floors = [0.0] * len(columns)
    for line in lines:
        bars = []
        for at, value in enumerate(line.values):
            if value:
                high = value / top * HEIGHT
                floors[at] += high
                left = at * wide + wide * 0.1
                bars.append(f"M{left:.2f} {HEIGHT - floors[at]:.2f}h{wide * 0.8:.2f}v{high:.2f}h-{wide * 0.8:.2f}z")
        parts.append(Markup('<path class="fill-{}" d="{}"/>').format(line.colour, "".join(bars)))
    return _plot(title, lines, axis, parts, span, show)


def curves(
    title: str, lines: Sequence[Line], span: str, show: Callable[[float], str] = count, axis: PlotAxis | None = None
) -> Plot:
    """Return a chart of lines, with a gap where a value is missing."""
    axis = axis or _axis(max((each for line in lines for each in line.values if each is not None), default=0), show)
    parts = [
        Markup('<path class="line line-{}" d="{}"/>').format(line.colour, _path(line.values, axis.values[-1]))
        for line in lines
    ]
    return _plot(title, lines, axis, parts, span, show)


def sparkline(values: Values, colour: str, label: str, wrong: Values = ()) -> Markup:
    """Return a small line without axes, for a cell of a table; a second one in red where something went wrong."""
    top = max((each for each in (*values, *wrong) if each is not None), default=0) or 1
    red = Markup('<path class="line line-failed" d="{}"/>').format(_path(wrong, top)) if any(wrong) else ""
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<path class="area-{colour}" d="{area}"/><path class="line line-{colour}" d="{path}"/>{red}</svg>'
    ).format(
        w=WIDTH, h=HEIGHT, label=visible(label), colour=colour, area=_area(values, top), path=_path(values, top),
        red=red,
    )  # fmt: skip


def bar(parts: Sequence[tuple[str, float]], label: str) -> Markup:
    """Return one bar whose parts have their shares of the whole."""
    whole = sum(value for _, value in parts) or 1
    made, at = [], 0.0
    for colour, value in parts:
        wide = value / whole * 100
        if value:
            made.append(Markup('<rect class="fill-{}" x="{:.2f}" width="{:.2f}" height="8"/>').format(colour, at, wide))
        at += wide
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(visible(label), Markup("").join(made))


def _axis(highest: float, show: Callable[[float], str]) -> PlotAxis:
    """Return an axis up to a round number, with a label at its half."""
    values = [_top(highest) * part / 4 for part in range(5)]
    return PlotAxis(values, [show(value) for value in values[::2]])


def _plot(
    title: str, lines: Sequence[Line], axis: PlotAxis, parts: Sequence[Markup], span: str, show: Callable[[float], str]
) -> Plot:
    count = len(axis.values) - 1
    grid = Markup("").join(
        Markup('<path class="grid" d="M0 {:.1f}H{}"/>').format(HEIGHT * part / count, WIDTH)
        for part in range(count + 1)
    )
    latest = tuple(_latest(line.values, show) for line in lines)
    label = f"{title}, {span}: " + ", ".join(f"{line.name} {value}" for line, value in zip(lines, latest, strict=True))
    svg = Markup(
        '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">{grid}{parts}</svg>'
    ).format(w=WIDTH, h=HEIGHT, label=visible(label), grid=grid, parts=Markup("").join(parts))
    points = json.dumps([[line.name, [None if each is None else show(each) for each in line.values]] for line in lines])
    return Plot(svg, title, label, tuple(reversed(axis.labels)), tuple(lines), points, latest, span)


def _latest(values: Values, show: Callable[[float], str]) -> str:
    """Return the last value whose time is over: that of this moment has only begun, and would seem too low."""
    over = values[:-1] if len(values) > 1 else values
    found = next((each for each in reversed(over) if each is not None), None)
    return NONE if found is None else show(found)


def _path(values: Values, top: float) -> str:
    step = WIDTH / max(1, len(values) - 1)
    made, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        made.append(f"{pen}{at * step:.1f} {HEIGHT - value / top * HEIGHT:.1f}")
        pen = "L"
    return "".join(made)


def _area(values: Values, top: float) -> str:
    full = [each or 0 for each in values]
    return f"{_path(full, top)}L{WIDTH} {HEIGHT}L0 {HEIGHT}z" if full else ""


def _top(value: float) -> float:
    """Return a round number at or above the highest value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(nice * power for nice in _NICE if nice * power >= value * 0.999)
