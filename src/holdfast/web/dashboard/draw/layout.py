"""Where the boxes of a graph stand, in columns by level, and how edges pass the columns between two boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..view.graph import Box

BOX_WIDTH, BOX_HEIGHT = 190, 54
GAP_X, GAP_Y = 56, 16
Point = tuple[float, float]
Stand = tuple[int, int]
"""The key of a box and a level: the box itself, or where edges from it pass a later level."""


@dataclass(frozen=True)
class Layout:
    """The places of boxes by key, and the edges as points: between every second and third of them lies a gap."""

    places: dict[int, Point]
    edges: list[list[Point]]
    columns: int
    width: float
    height: float


def layout(boxes: Sequence[Box]) -> Layout:
    """Return where the boxes stand. An edge over several levels has room of its own in each, so it crosses no box."""
    levels = {box.key: box.level for box in boxes}
    before = _before(boxes, levels)
    columns = _columns(before)
    highs = [sum(_high(stand, levels) for stand in column) + GAP_Y * (len(column) - 1) for column in columns]
    most = max(highs, default=BOX_HEIGHT)
    at: dict[Stand, Point] = {}
    for number, (column, high) in enumerate(zip(columns, highs, strict=True)):
        y = (most - high) / 2
        for stand in column:
            at[stand] = number * float(BOX_WIDTH + GAP_X), y
            y += _high(stand, levels) + GAP_Y
    places = {key: at[key, level] for key, level in levels.items()}
    edges = [_edge(parent, box, at, levels) for box in boxes for parent in sorted(box.after)]
    return Layout(places, edges, len(columns), max(1, len(columns)) * (BOX_WIDTH + GAP_X) - GAP_X, most)


def _high(stand: Stand, levels: Mapping[int, int]) -> float:
    return BOX_HEIGHT if stand[1] == levels[stand[0]] else 0


def _before(boxes: Sequence[Box], levels: Mapping[int, int]) -> dict[Stand, set[Stand]]:
    """Return what stands in the level before each box and each passage, with an edge to it."""
    before: dict[Stand, set[Stand]] = {(box.key, box.level): set() for box in boxes}
    for box in boxes:
        for parent in box.after:
            for level in range(levels[parent] + 1, box.level):
                before[parent, level] = {(parent, level - 1)}
            before[box.key, box.level].add((parent, box.level - 1))
    return before


def _columns(before: Mapping[Stand, set[Stand]]) -> list[list[Stand]]:
    """Put what stands in each level below each other, near what it comes after."""
    columns: list[list[Stand]] = [[] for _ in range(max((level for _, level in before), default=-1) + 1)]
    for stand in before:
        columns[stand[1]].append(stand)
    rows: dict[Stand, int] = {}
    for column in columns:
        column.sort(key=lambda stand: (_middle(before[stand], rows), stand))
        rows.update({stand: row for row, stand in enumerate(column)})
    return columns


def _middle(before: set[Stand], rows: Mapping[Stand, int]) -> float:
    known = [rows[each] for each in before if each in rows]
    return sum(known) / len(known) if known else 0.0


def _edge(parent: int, box: Box, at: Mapping[Stand, Point], levels: Mapping[int, int]) -> list[Point]:
    x, y = at[parent, levels[parent]]
    points = [(x + BOX_WIDTH, y + BOX_HEIGHT / 2)]
    for level in range(levels[parent] + 1, box.level):
        x, y = at[parent, level]
        points += [(x, y), (x + BOX_WIDTH, y)]
    x, y = at[box.key, box.level]
    return [*points, (x, y + BOX_HEIGHT / 2)]
