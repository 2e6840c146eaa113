"""Rows as text, read into Arrow columns: a database writes a line, and Arrow takes it apart, faster than Python can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..distribution import pip_install
from ..errors import MissingExtra

_NUMBERS = {
    "sequence", "at_ms", "run", "attempt", "priority", "run_at_ms", "failures", "stalls", "timeouts", "releases",
    "wait_ms", "run_ms",
}  # fmt: skip
_EDGE = ("[", "]")
_HEXADECIMAL = ("payload", "envelope")
"""Columns of bytes, which are written as hexadecimal digits."""
BLOCK = 1 << 26


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError as error:
        raise MissingExtra(f"reading whole tables needs pyarrow: {pip_install('spark')}") from error
    return pyarrow, pyarrow.csv


def from_csv(text: bytes, names: Sequence[str], *, null: str = "", escape: str | bool = False) -> dict[str, Any]:
    """Return lines of comma-separated values as columns. A value that is quoted is never null."""
    arrow, csv = _arrow()
    types = {name: arrow.int64() if name in _NUMBERS else arrow.string() for name in names}
    table = csv.read_csv(
        arrow.BufferReader(text),
        csv.ReadOptions(column_names=list(names), use_threads=False, block_size=max(BLOCK, len(text) + 1)),
        csv.ParseOptions(escape_char=escape, double_quote=not escape, newlines_in_values=not escape),
        csv.ConvertOptions(
            column_types={**types, **({"progress": arrow.float64()} if "progress" in types else {})},
            null_values=[null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = {name: table.column(name) for name in names if name not in _EDGE}
    return {**columns, **{name: _blobs(columns[name]) for name in _HEXADECIMAL if name in columns}}


def from_json_lines(text: str, names: Sequence[str]) -> dict[str, Any]:
    """Return lines, each a JSON array of one row, as columns. With nothing escaped, they are plain enough for CSV."""
    if "\\" not in text:
        first, last = _EDGE
        # The brackets stick to the values at the edge, which the query therefore makes up: [0,…,0]
        return from_csv(text.encode(), [first, *names, last], null="null", escape="\\")
    rows = msgspec.json.decode(f"[{text.replace(chr(10), ',')}]")
    columns: dict[str, Any] = dict(zip(names, [*zip(*rows, strict=True)][1:-1], strict=True))
    if "progress" in columns:
        columns["progress"] = [None if each is None else float(each) for each in columns["progress"]]
    for name in _HEXADECIMAL:
        if name in columns:
            columns[name] = [None if each is None else bytes.fromhex(each) for each in columns[name]]
    return columns


def _blobs(column: Any) -> Sequence[bytes | None] | Any:
    """Return bytes from hexadecimal digits; most often there is none at all."""
    arrow, _ = _arrow()
    if column.null_count == len(column):
        return arrow.nulls(len(column), arrow.binary())
    return [None if each is None else bytes.fromhex(each) for each in column.to_pylist()]
