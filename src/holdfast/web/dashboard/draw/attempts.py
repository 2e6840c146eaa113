"""The bar of one attempt on the axis of time that all attempts of a run share."""

from __future__ import annotations

from markupsafe import Markup

from ....core.visible import visible
from ..view.timeline import AttemptBar, Timeline
from ..words import duration

WIDTH = 1000.0
SLIVER = 4.0
"""No bar is thinner, so that an attempt of a millisecond in a day can be seen."""


def attempt_bar(bar: AttemptBar, line: Timeline, now_ms: int) -> Markup:
    """Return the picture of an attempt: a thin line while it waited, a block while it ran."""
    begin = _x(line, bar.ready_ms)
    started = _x(line, bar.began_ms if bar.began_ms is not None else line.last_ms)
    parts = [Markup('<path class="wait" d="M{:.1f} 10H{:.1f}"/>').format(begin, max(started, begin + 1))]
    label = f"waited {duration(bar.wait_ms)}" if bar.began_ms is not None else bar.outcome
    if bar.began_ms is not None:
        end = _x(line, bar.ended_ms if bar.ended_ms is not None else line.last_ms)
        wide = max(end - started, SLIVER)
        at = min(started, WIDTH - wide)
        parts.append(
            Markup('<rect class="fill-{}" x="{:.1f}" y="2" width="{:.1f}" height="16"/>').format(bar.colour, at, wide)
        )
        label += f", ran {duration(bar.ran_ms(now_ms))}, {bar.outcome}"
    return Markup(
        '<svg class="attempt" viewBox="0 0 {} 20" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(int(WIDTH), visible(label), Markup("").join(parts))


def _x(line: Timeline, ms: int) -> float:
    return (ms - line.first_ms) / (line.last_ms - line.first_ms) * WIDTH
