"""Our own job table and rows of it, taken from a database that Holdfast has just made."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmarks import app as ours
from benchmarks.system import Place

TABLE = "holdfast_job"


@dataclass(frozen=True)
class Specimen:
    """The table's CREATE statements, and two jobs: what differs between them differs in every job."""

    schema: tuple[str, ...]
    columns: tuple[str, ...]
    first: tuple[Any, ...]
    second: tuple[Any, ...]

    def insertion(self) -> str:
        marks = ", ".join("?" for _ in self.columns)
        return f"INSERT INTO {TABLE} ({', '.join(self.columns)}) VALUES ({marks})"

    def rows(self, count: int) -> Iterator[tuple[Any, ...]]:
        """As many jobs like the first. Ids ascend, which is what an index likes best."""
        for number in range(count):
            yield tuple(
                value if value == other else _another(value, number)
                for value, other in zip(self.first, self.second, strict=True)
            )


def take(place: Place) -> Specimen:
    """Two jobs are enqueued by Holdfast at a place beside this one, and read back."""
    url = f"{place.url}.specimen"
    asyncio.run(_make(Place(url, place.folder, jobs=2)))
    with closing(sqlite3.connect(url)) as connection:
        columns = _columns(connection)
        first, second = connection.execute(f"SELECT {', '.join(columns)} FROM {TABLE}").fetchall()
        return Specimen(_schema(connection), columns, first, second)


async def _make(place: Place) -> None:
    app, noop = ours.application(place)
    async with app:
        await ours.fill(noop, place.jobs)


def _schema(connection: sqlite3.Connection) -> tuple[str, ...]:
    found = connection.execute("SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql NOT NULL", [TABLE])
    return tuple(sql for (sql,) in found)


def _columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Those that an insert must name: the rest stay at their defaults."""
    described = connection.execute(f"PRAGMA table_info({TABLE})").fetchall()
    row = connection.execute(f"SELECT * FROM {TABLE} LIMIT 1").fetchone()
    defaults = {name: default for _, name, _, _, default, _ in described}
    held = zip(defaults.items(), row, strict=True)
    return tuple(name for (name, default), value in held if value is not None and str(value) != default)


def _another(value: Any, number: int) -> Any:
    return value + number if isinstance(value, int) else f"{number:0{len(value)}d}"
