"""How wide each column of a list is, and its rows as lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from .listing import Column, ListRow

GAP = 2
NARROWEST = 6
"""A column of words is cut to so many characters, and no further; numbers are never cut."""


def widths(natural: Sequence[int], may_shrink: Sequence[bool], room: int) -> list[int]:
    """Return the width of each column so that all fit: the widest of those that may be cut gives way first."""
    found = list(natural)
    over = sum(found) + GAP * max(0, len(found) - 1) - room
    while over > 0:
        able = [at for at, can in enumerate(may_shrink) if can and found[at] > NARROWEST]
        if not able:
            break
        widest = max(able, key=lambda at: found[at])
        found[widest] -= 1
        over -= 1
    return found


def table_lines(
    columns: Sequence[Column], titles: Sequence[str], rows: Sequence[ListRow], room: int, selected: int | None
) -> list[Text]:
    """Return a header and rows as lines of at most so many characters."""
    wanted = [max([len(title), *(row.cells[at].cell_len for row in rows)]) for at, title in enumerate(titles)]
    shown = _shown(columns, wanted, room)
    fitted = widths([wanted[at] for at in shown], [_may_shrink(columns[at]) for at in shown], room)
    header = _line([Text(titles[at], style="bold") for at in shown], columns, shown, fitted)
    lines = [_line([row.cells[at] for at in shown], columns, shown, fitted) for row in rows]
    for index, line in enumerate(lines):
        line.truncate(room)
        if index == selected:
            line.pad_right(max(0, room - line.cell_len))
            line.stylize("reverse")
    return [header, *lines]


def _shown(columns: Sequence[Column], wanted: Sequence[int], room: int) -> list[int]:
    """Return the columns that fit. Those that only wide screens have go first; a mark, which has no title, stays."""
    shown = [at for at, column in enumerate(columns) if room >= column.from_width]
    while sum(_least(columns[at], wanted[at]) + GAP for at in shown) - GAP > room:
        spare = [at for at in shown if columns[at].from_width and columns[at].title]
        if not spare:
            break
        shown.remove(max(spare, key=lambda at: columns[at].from_width))
    return shown


def _least(column: Column, wanted: int) -> int:
    return min(wanted, NARROWEST) if _may_shrink(column) else wanted


def _may_shrink(column: Column) -> bool:
    return not (column.number or column.fixed)


def _line(cells: Sequence[Text], columns: Sequence[Column], shown: Sequence[int], fitted: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for at, cell, width in zip(shown, cells, fitted, strict=True):
        part = cell.copy()
        part.truncate(width, overflow="ellipsis")
        part.align("right" if columns[at].number else "left", width)
        line.append_text(part)
        line.append(" " * GAP)
    line.rstrip()
    return line
