"""What an executor does with the rows of a table: it writes them as Parquet files, and tells of each file.

Only the files that a finished task tells of are committed. A task that is repeated, or run twice at the same time,
writes files of other names, and those of the lost one belong to no table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..table_schema import TableSchema
from .data_file import DataFile, measured, ranged
from .location import LakeLocation
from .storage_errors import plain_storage_errors

NULL = "__HIVE_DEFAULT_PARTITION__"
GROUP_ROWS = 131_072
FILE_BYTES = 128 << 20
TOLD = "file string"
"""What a task returns: a file in each row."""
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class WriteTarget:
    """Where rows go: a table, and a new folder below it."""

    location: LakeLocation
    schema: TableSchema
    folder: str
    compression: str = "snappy"

    @property
    def stored(self) -> pa.Schema:
        """The columns that a file has: all but those of the partition."""
        kept = [each for each in self.schema.arrow if each.name not in self.schema.partition]
        return pa.schema([each.remove_metadata() for each in kept])


def file_writer(target: WriteTarget) -> Callable[[Batches], Batches]:
    """Return the function that writes a task's rows, and yields the files."""

    def write(batches: Batches) -> Batches:
        parts: dict[tuple[Any, ...], _Part] = {}
        for batch in batches:
            for values, rows in _by_partition(pa.Table.from_batches([batch]), target.schema.partition):
                part = parts.get(values) or parts.setdefault(values, _Part(target, values))
                yield from _told(part.add(rows))
        for part in parts.values():
            yield from _told(part.finish())

    return write


def share_writer(target: WriteTarget, read: Callable[[int], Batches]) -> Callable[[Batches], Batches]:
    """Return the function that reads the shares whose numbers a task gets, writes their rows, and yields the files."""
    write = file_writer(target)

    def write_shares(batches: Batches) -> Batches:
        return write(rows for batch in batches for number in batch.column(0).to_pylist() for rows in read(number))

    return write_shares


def _told(file: DataFile | None) -> Batches:
    if file is not None:
        yield pa.RecordBatch.from_pydict({"file": [file.encoded()]})


def _by_partition(rows: pa.Table, names: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Yield the rows of each combination of the partition's values."""
    if not names:
        yield (), rows
        return
    found = rows.select(names).group_by(list(names)).aggregate([]).to_pylist()
    if len(found) == 1:
        yield tuple(found[0].values()), rows
        return
    for values in found:
        chosen = None
        for name, value in values.items():
            same = pc.is_null(rows[name]) if value is None else pc.equal(rows[name], value)
            chosen = same if chosen is None else pc.and_kleene(chosen, same)
        yield tuple(values.values()), rows.filter(chosen)


class _Part:
    """The rows of one partition in one task, gathered to files of a good size."""

    def __init__(self, target: WriteTarget, values: tuple[Any, ...]) -> None:
        self._target = target
        self._schema = target.stored
        self._partition = {
            name: None if value is None else str(value)
            for name, value in zip(target.schema.partition, values, strict=True)
        }
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> DataFile | None:
        """Take rows; return a file when one is full."""
        self._waiting.append(rows.select(self._schema.names))
        self._rows += rows.num_rows
        if self._rows < GROUP_ROWS:
            return None
        self._flush()
        return self.finish() if self._sink is not None and self._sink.tell() >= FILE_BYTES else None

    def _flush(self) -> None:
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, compression=self._target.compression, write_statistics=ranged(self._schema)
            )
        self._writer.write_table(pa.concat_tables(self._waiting).cast(self._schema), row_group_size=GROUP_ROWS)
        self._waiting, self._rows = [], 0

    def finish(self) -> DataFile | None:
        """Put the file where it belongs; return it."""
        if self._waiting:
            self._flush()
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        data = self._sink.getvalue()
        self._writer = self._sink = None
        path = "/".join([self._target.folder, *self._folders(), f"part-{uuid.uuid4().hex}.parquet"])
        with plain_storage_errors(self._target.location):
            self._target.location.put(path, data.to_pybytes())
        return measured(pq.read_metadata(pa.BufferReader(data)), path, data.size, self._partition)

    def _folders(self) -> list[str]:
        return [f"{name}={NULL if value is None else value}" for name, value in self._partition.items()]
