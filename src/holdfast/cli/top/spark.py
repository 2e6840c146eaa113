"""Small pictures of numbers, in one line."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"


def sparkline(values: Sequence[int], width: int, *, ascii_only: bool = False) -> str:
    """Return numbers as blocks of up to eight heights, the last ones where there are too many; 0 is a blank."""
    shown = [0] * max(0, width - len(values)) + list(values[-width:] if width else [])
    highest = max(shown, default=0)
    if highest <= 0:
        return " " * width
    marks = _ASCII if ascii_only else _BLOCKS
    return "".join(" " if value <= 0 else marks[min(7, (value * 8 - 1) // highest)] for value in shown)


def added(values: Sequence[int], size: int) -> list[int]:
    """Return the sums of so many numbers each, so that the last sum is whole."""
    rest = len(values) % size
    return [sum(values[at : at + size]) for at in range(rest, len(values), size)]
