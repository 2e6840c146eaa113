"""One Parquet file of a table, and what is known of its rows without reading them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

Value: TypeAlias = Any  # of a column of any type: compared only with values of the same column
_PLAIN = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date)
RANGED_TEXT = frozenset({"epoch", "queue"})
"""Columns of text whose range is kept, too: few values, and short ones."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table."""

    path: str
    """Below the table's folder."""
    size: int
    rows: int
    partition: dict[str, str | None]
    lowest: dict[str, Value] = field(default_factory=dict)
    highest: dict[str, Value] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's own name, which no other file has."""
        return self.path.rpartition("/")[2]

    def encoded(self) -> str:
        """Return the file as JSON, in which an executor tells the driver of it."""
        return json.dumps([self.path, self.size, self.rows, self.partition, self.stats()])

    @classmethod
    def decoded(cls, text: str, schema: pa.Schema) -> DataFile:
        """Return the file that an executor has told of."""
        path, size, rows, partition, stats = json.loads(text)
        found = json.loads(stats)
        lowest, highest = (
            {name: _typed(value, schema.field(name).type) for name, value in found[part].items()}
            for part in ("minValues", "maxValues")
        )
        return cls(path, size, rows, partition, lowest, highest, found["nullCount"])

    @classmethod
    def from_action(cls, row: Mapping[str, Value]) -> DataFile:
        """Return the file of an add action of the table's log."""

        def part(prefix: str) -> dict[str, Value]:
            return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}

        partition = {name: None if value is None else str(value) for name, value in part("partition.").items()}
        return cls(
            path=unquote(row["path"]), size=row["size_bytes"], rows=row["num_records"] or 0, partition=partition,
            lowest=part("min."), highest=part("max."), nulls=part("null_count."),
        )  # fmt: skip

    def stats(self) -> str:
        """Return the statistics as a Delta log has them."""
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: _plain(value) for name, value in self.lowest.items()},
                "maxValues": {name: _plain(value) for name, value in self.highest.items()},
                "nullCount": self.nulls,
            }
        )


def ranged(schema: pa.Schema) -> list[str]:
    """Return the columns whose range is kept: numbers, times, and some short texts."""
    return [each.name for each in schema if each.name in RANGED_TEXT or any(is_(each.type) for is_ in _PLAIN)]


def measured(footer: pq.FileMetaData, path: str, size: int, partition: dict[str, str | None]) -> DataFile:
    """Return a file with the ranges of its columns, from its footer."""
    lowest: dict[str, Value] = {}
    highest: dict[str, Value] = {}
    nulls: dict[str, int] = {}
    names = set(ranged(footer.schema.to_arrow_schema()))
    for index in range(footer.num_columns):
        groups = [footer.row_group(number).column(index) for number in range(footer.num_row_groups)]
        if not groups or groups[0].path_in_schema not in names:
            continue  # also the parts of an array, which are no columns of their own
        name, found = groups[0].path_in_schema, [group.statistics for group in groups]
        if any(each is None for each in found):
            continue
        nulls[name] = sum(each.null_count or 0 for each in found)
        known = [each for each in found if each.has_min_max]
        if known:
            lowest[name], highest[name] = min(each.min for each in known), max(each.max for each in known)
    return DataFile(path, size, footer.num_rows, partition, lowest, highest, nulls)


def _plain(value: Value) -> Value:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
    return value.isoformat() if isinstance(value, date) else value


def _typed(value: Value, type: pa.DataType) -> Value:
    if pa.types.is_timestamp(type):
        return datetime.fromisoformat(value)
    return date.fromisoformat(value) if pa.types.is_date(type) else value
