"""A list on the screen: columns, rows, and how they are sorted, filtered and selected."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from rich.text import Text

from ...core.visible import visible

RowKey: TypeAlias = tuple[str, ...]
"""What a row is about, whichever place it has: a queue's name, a job's queue, id and run."""
SortValue: TypeAlias = str | float | None


class Column(msgspec.Struct, frozen=True):
    """One column. Numbers stand on the right, and are sorted with the highest first."""

    title: str
    number: bool = False
    from_width: int = 0
    """How wide the terminal must be for it to be shown."""
    fixed: bool = False
    """Never cut, as numbers are."""


class ListRow(msgspec.Struct, frozen=True):
    """One row: what it shows, and by what it is sorted."""

    key: RowKey
    cells: tuple[Text, ...]
    values: tuple[SortValue, ...]


class Listing(msgspec.Struct, frozen=True):
    """What a view lists, in the order that comes of itself."""

    columns: tuple[Column, ...]
    rows: list[ListRow]
    empty: str = "nothing"


def text(value: object, style: str = "") -> Text:
    """Return a value as a cell: on one line, with nothing in it that steers a terminal."""
    return Text("" if value is None else visible(str(value)), style=style, no_wrap=True, overflow="ellipsis")


def arranged(listing: Listing, sort: int | None, *, reverse: bool, wanted: str) -> list[ListRow]:
    """Return the rows with a word in them, sorted by a column; rows without a value come last."""
    word = wanted.casefold()
    rows = [row for row in listing.rows if not word or any(word in cell.plain.casefold() for cell in row.cells)]
    if sort is None or sort >= len(listing.columns):
        return rows[::-1] if reverse else rows
    known = [row for row in rows if row.values[sort] is not None]
    unknown = [row for row in rows if row.values[sort] is None]
    downward = listing.columns[sort].number != reverse
    return sorted(known, key=lambda row: _order(row.values[sort]), reverse=downward) + unknown


def _order(value: SortValue) -> tuple[bool, float, str]:
    return (True, 0.0, value.casefold()) if isinstance(value, str) else (False, value or 0.0, "")


def place_of(rows: list[ListRow], key: RowKey | None) -> int:
    """Return where a row is; 0 when it is not there."""
    return next((index for index, row in enumerate(rows) if row.key == key), 0)


def first_shown(place: int, count: int, height: int) -> int:
    """Return the first row to show so that the one at a place is seen, a page at a time."""
    if height < 1 or count <= height:
        return 0
    return min(place - place % height, count - height) if place >= height else 0
