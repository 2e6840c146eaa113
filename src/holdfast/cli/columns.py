"""The columns of a table, and how wide each is in the room of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

GAP = 2
SHORT = 10
"""Cells up to this width are never folded."""
LONGEST_WORD = 40
"""Longer words are broken, and shorter ones, such as generated ids, stay whole while there is room."""


@dataclass(frozen=True)
class TableColumn:
    """A column by its title; `>` before it aligns to the right, `?` lets it be left out where room is short."""

    title: str
    right: bool
    optional: bool

    @classmethod
    def of(cls, mark: str) -> TableColumn:
        """Return the column that a title with its marks names."""
        title = mark.lstrip(">?")
        marks = mark[: len(mark) - len(title)]
        return cls(title, ">" in marks, "?" in marks)


@dataclass(frozen=True)
class Fit:
    """The columns that are shown, by their place, with their widths; without widths, words have to be broken."""

    places: list[int]
    widths: list[int] | None


def fit(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], room: int) -> Fit:
    """Return what fits: all columns if they do, else without empty ones, then without optional ones from the right."""
    needs = [_need(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    wants = [max(map(cell_len, [column.title, *(row[at] for row in rows)])) for at, column in enumerate(columns)]
    places = list(range(len(columns)))
    if _sum(wants, places) > room:
        places = [at for at in places if not columns[at].title or any(row[at] for row in rows)] if rows else places
        for at in [at for at in reversed(places) if columns[at].optional]:
            if _sum(needs, places) <= room:
                break
            places.remove(at)
    if _sum(needs, places) > room:
        return Fit(places, None)
    return Fit(places, _shared(needs, wants, places, room - _sum(needs, places)))


def _need(column: TableColumn, cells: Sequence[str]) -> int:
    """Return the least width: that of a whole cell where it is short or a number, and else of the longest word."""
    whole = max(map(cell_len, [column.title, *cells]))
    if column.right or whole <= SHORT:
        return whole
    words = (word for cell in cells for word in cell.split())
    longest = max(map(cell_len, words), default=0)
    return max(cell_len(column.title), min(longest, LONGEST_WORD))


def _shared(needs: Sequence[int], wants: Sequence[int], places: Sequence[int], room: int) -> list[int]:
    """Return the widths: the room beyond what is needed goes first to those who want little more."""
    widths = {at: needs[at] for at in places}
    for at in sorted(places, key=lambda at: wants[at] - needs[at]):
        more = min(max(0, wants[at] - needs[at]), room)
        widths[at] += more
        room -= more
    return [widths[at] for at in places]


def _sum(widths: Sequence[int], places: Sequence[int]) -> int:
    return sum(widths[at] for at in places) + GAP * max(0, len(places) - 1)
