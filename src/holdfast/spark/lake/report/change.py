"""What has changed since the previous period, in words and with a colour: never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["more", "less", "neither"]
SLIGHT = 0.005
"""A smaller part is no change: it would be shown as 0 %."""
TIMES = 3.0
"""From so many times on, a change is told as a factor."""


@dataclass(frozen=True)
class FigureChange:
    """How a figure compares with the one before."""

    words: str
    tone: Literal["better", "worse", "same"]

    @property
    def sentence(self) -> str:
        """The words, with what they mean where they mean something."""
        return self.words if self.tone == "same" else f"{self.words}, {self.tone}"


def relative(now: float | None, before: float | None, better: Better) -> FigureChange | None:
    """Return how a count or a duration has changed, in parts of what it was; `None` with nothing to compare."""
    if now is None or before is None:
        return None
    if now == before or (before and abs(now / before - 1) < SLIGHT):
        return FigureChange("as before", "same")
    if not before:
        return FigureChange("none before", _tone(True, better))
    factor = now / before
    if factor >= TIMES:
        words = f"{factor:,.0f} times" if factor >= 10 else f"{factor:.1f} times"
    elif not now:
        words = "none any more"
    else:
        words = f"{abs(factor - 1):.0%} {'more' if factor > 1 else 'less'}".replace("%", " %")
    return FigureChange(words, _tone(factor > 1, better))


def absolute(now: float | None, before: float | None, better: Better) -> FigureChange | None:
    """Return how a share has changed, in percentage points."""
    if now is None or before is None:
        return None
    points = 100 * (now - before)
    if abs(points) < 0.05:
        return FigureChange("as before", "same")
    return FigureChange(f"{abs(points):.1f} points {'more' if points > 0 else 'less'}", _tone(points > 0, better))


def _tone(more: bool, better: Better) -> Literal["better", "worse", "same"]:
    if better == "neither":
        return "same"
    return "better" if more == (better == "more") else "worse"
