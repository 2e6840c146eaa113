"""The schema of a lake's table: columns, key and partitions."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TEXT, WHOLE, COUNT, REAL = pa.string(), pa.int64(), pa.int32(), pa.float64()
TIME, DAY, BYTES = pa.timestamp("us", "UTC"), pa.date32(), pa.binary()
WORDS = pa.list_(TEXT)
QUERIED = {
    TEXT: "Utf8", WHOLE: "Int64", COUNT: "Int32", REAL: "Float64", TIME: 'Timestamp(Microsecond, Some("UTC"))',
    DAY: "Date32", BYTES: "Binary", WORDS: "List(Utf8)", pa.bool_(): "Boolean",
}  # fmt: skip
"""What queries call the types of the lake's columns."""

Column = tuple[str, pa.DataType, str]


@dataclass(frozen=True)
class TableSchema:
    """A table's name, columns, key and partitions."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partition: tuple[str, ...] = ("day",)

    @property
    def arrow(self) -> pa.Schema:
        """The schema, as Arrow has it."""
        return pa.schema([pa.field(name, type, True, {"comment": text}) for name, type, text in self.columns])

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return [name for name, _, _ in self.columns]
