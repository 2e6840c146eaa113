"""Encode rows of plain columns: what a value would be checked for, the type of its column says for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType

import pyarrow as pa
import pyarrow.compute as pc

from ...app.task import AnyTask
from ...codec import codec as find_codec
from ...codec.format import packer_of
from ...codec.plain import kinds_of
from .options import WriteOptions


class PlainRows:
    """The payloads of whole batches, each the same that its row would get alone."""

    def __init__(self, options: WriteOptions, task: AnyTask | None) -> None:
        self._task = task
        self._pack = packer_of(task.codec if task else find_codec(options.codec))
        self._limit = task.max_payload if task else options.max_payload
        self._hints: dict[str, object] = dict(task.signature.type.__annotations__) if task else {}

    def payloads(self, batch: pa.RecordBatch, columns: Sequence[list[object]]) -> list[bytes] | None:
        """Return the payload of each row; `None` when one has to be looked at by itself. `columns` has the values."""
        pack, order = self._pack, self._order(batch.schema.names)
        if pack is None or order is None or not all(map(self._fits, batch.schema.names, batch.columns)):
            return None
        by_name = dict(zip(batch.schema.names, columns, strict=True))
        values = zip(*(by_name[name] for name in order), strict=True)
        found = [pack(dict(zip(order, each))) for each in values]  # noqa: B905 - `strict` costs a tenth
        return found if max(map(len, found), default=0) <= self._limit else None

    def _order(self, names: list[str]) -> list[str] | None:
        """Return the columns in the order of a payload; `None` when one is not an argument of its own."""
        if self._task is None:
            return list(dict.fromkeys(names))
        try:
            bound = self._task.signature.bind((), {name: name for name in names})
        except TypeError:
            return None  # a row that is encoded alone says which column does not fit
        return list(bound) if all(name == value for name, value in bound.items()) else None

    def _fits(self, name: str, column: pa.Array) -> bool:
        """Return whether every value of a column will come back the same."""
        found = _python_type(column.type)
        kinds = kinds_of(self._hints[name]) if self._task else frozenset()
        if found is None or kinds is None or (kinds and found not in kinds):
            return False
        if column.null_count and kinds and NoneType not in kinds:
            return False
        return found is not float or pc.all(pc.is_finite(column)).as_py() is not False


def _python_type(kind: pa.DataType) -> type | None:
    types = pa.types
    if types.is_integer(kind):
        return int
    if types.is_string(kind) or types.is_large_string(kind):
        return str
    if types.is_boolean(kind):
        return bool
    return float if types.is_float32(kind) or types.is_float64(kind) else None
