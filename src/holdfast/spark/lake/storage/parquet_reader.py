"""How executors read files of object storage, for which Spark itself may have no connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .location import LakeLocation
from .storage_errors import plain_storage_errors

ROWS = 16_384
Batches = Iterator[pa.RecordBatch]
FILE_NAME = "file_name"
"""The column that names a row's file, where it is asked for."""


@dataclass(frozen=True)
class Range:
    """Only rows whose column may lie between two values: row groups without any are not read."""

    column: str
    low: Any
    high: Any


@dataclass(frozen=True)
class ReadPlan:
    """What is read: some columns of some files, in groups of which each is one task's."""

    location: LakeLocation
    schema: pa.Schema
    groups: Sequence[Sequence[str]]
    within: Range | None = None


def file_reader(plan: ReadPlan) -> Callable[[Batches], Batches]:
    """Return the function that reads the files of the groups whose numbers a task gets."""

    def read(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for path in plan.groups[number]:
                    with plain_storage_errors(plan.location):
                        yield from _rows_of(plan, path)

    return read


def _rows_of(plan: ReadPlan, path: str) -> Batches:
    with plan.location.open(path) as source:
        file = pq.ParquetFile(source)
        there = [name for name in plan.schema.names if name in file.schema_arrow.names]
        groups = _groups(file.metadata, plan.within)
        for batch in file.iter_batches(ROWS, row_groups=groups, columns=there) if groups else ():
            yield _completed(batch, plan.schema, path)


def _completed(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """Return the batch with every column: those that an older file lacks are null."""
    arrays = []
    for each in schema:
        if each.name == FILE_NAME:
            arrays.append(pa.array([path.rpartition("/")[2]] * batch.num_rows, pa.string()))
        elif each.name in batch.schema.names:
            arrays.append(batch.column(each.name).cast(each.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, each.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _groups(footer: pq.FileMetaData, within: Range | None) -> list[int]:
    numbers = range(footer.num_row_groups)
    if within is None:
        return list(numbers)
    names = [footer.schema.column(index).path for index in range(footer.num_columns)]
    if within.column not in names:
        return list(numbers)
    index = names.index(within.column)

    def may_match(number: int) -> bool:
        found = footer.row_group(number).column(index).statistics
        return found is None or not found.has_min_max or (found.min <= within.high and found.max >= within.low)

    return [number for number in numbers if may_match(number)]
