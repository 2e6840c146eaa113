"""More history: copies of a lake's files, moved back in time. They cost a tenth of what the lake's own steps do.

A copy has the same rows as many days earlier, with the runs and sequences of that time, so that it lies in the tables
as if the lake itself had made it. Spark's tasks write the files; the driver only adds them to the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from holdfast.spark.lake.delta_table import LakeTable
from holdfast.spark.lake.schemas import ATTEMPTS, ERRORS, EVENTS, JOBS, MINUTES, TENANTS, WORKERS
from holdfast.spark.lake.storage.data_file import DataFile

from .lives import STEP
from .world import DAY_MS, SHELF, World

COPIED = (EVENTS, ATTEMPTS, JOBS, MINUTES, TENANTS, ERRORS, WORKERS)
AT_ONCE = 64
"""So many files are one task."""
STRETCH = 10
"""So many copies are made before they are added: who is stopped has lost no more."""


@dataclass(frozen=True)
class Shift:
    """How far a copy is moved back."""

    days: int
    runs: int

    def number(self, column: str) -> int:
        """Return what is taken off a column of whole numbers."""
        if column == "run":
            return self.runs
        if column == "shelf":
            return self.runs // SHELF
        return self.days * DAY_MS * STEP if column.endswith("sequence") else 0

    def value(self, column: str, value: Any) -> Any:
        """Return one value, moved."""
        if isinstance(value, date):
            return value - timedelta(days=self.days)
        return value - self.number(column) if isinstance(value, int) else value

    def table(self, rows: pa.Table) -> pa.Table:
        """Return rows, moved."""
        for index, field in enumerate(rows.schema):
            moved = self._column(field, rows.column(index))
            rows = rows if moved is None else rows.set_column(index, field, moved)
        return rows

    def _column(self, field: pa.Field, values: pa.ChunkedArray) -> pa.ChunkedArray | None:
        if pa.types.is_timestamp(field.type):
            return pc.subtract(values, pa.scalar(timedelta(days=self.days), pa.duration(field.type.unit)))
        taken = self.number(field.name) if pa.types.is_int64(field.type) else 0
        return pc.subtract(values, taken) if taken else None


def add_copies(spark: SparkSession, lake: Path, world: World, days: int, first: int, last: int) -> None:
    """Add copies number `first` to `last` of the newest `days` of a lake, each so many days before the one before.

    Copies that are there are not made again, so that the same call goes on where it was stopped.
    """
    for schema in COPIED:
        table = LakeTable(lake, schema)
        originals = [file for file in table.files() if not file.path.startswith("copy-")]
        there = {file.path.partition("/")[0] for file in table.files()}
        lacking = [
            number for number in range(first, last + 1) if copied_path("", number).partition("/")[0] not in there
        ]
        for start in range(0, len(lacking), STRETCH):
            numbers = lacking[start : start + STRETCH]
            shifts = {number: Shift(number * days, number * days * world.jobs_per_day) for number in numbers}
            sizes = _written(spark, Path(table.location.uri), [file.path for file in originals], shifts)
            for number, shift in shifts.items():
                added = [_moved(file, number, shift, sizes[number, file.path]) for file in originals]
                table.commit(table.batch, added)


def copied_path(path: str, number: int) -> str:
    """Return where the copy of a file lies, below the table's folder. No two files have one name, as in any lake."""
    folder, _, name = path.rpartition("/")
    return f"copy-{number:04}/{folder}/{number:04}-{name}"


def _moved(file: DataFile, number: int, shift: Shift, size: int) -> DataFile:
    partition = {name: _moved_text(shift, name, text) for name, text in file.partition.items()}
    return replace(
        file,
        path=copied_path(file.path, number),
        size=size,
        partition=partition,
        lowest={name: shift.value(name, value) for name, value in file.lowest.items()},
        highest={name: shift.value(name, value) for name, value in file.highest.items()},
    )


def _moved_text(shift: Shift, column: str, text: str | None) -> str | None:
    if text is None:
        return None
    return str(shift.value(column, int(text) if column == "shelf" else date.fromisoformat(text)))


def _written(
    spark: SparkSession, folder: Path, paths: list[str], shifts: Mapping[int, Shift]
) -> dict[tuple[int, str], int]:
    """Have Spark's tasks write the copies; return the size of each."""
    wanted = [(number, path) for number in shifts for path in paths]
    if not wanted:
        return {}

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            for row in rows:
                row["size"] = _copy(folder, row["path"], row["number"], shifts[row["number"]])
            yield pa.RecordBatch.from_pylist(
                rows, pa.schema([("number", pa.int64()), ("path", pa.string()), ("size", pa.int64())])
            )

    frame = spark.createDataFrame(wanted, "number long, path string").repartition(max(2, len(wanted) // AT_ONCE))
    made = frame.mapInArrow(write, "number long, path string, size long").collect()
    return {(row["number"], row["path"]): row["size"] for row in made}


def _copy(folder: Path, path: str, number: int, shift: Shift) -> int:
    target = folder / copied_path(path, number)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = pq.ParquetFile(folder / path)
    with pq.ParquetWriter(target, source.schema_arrow, compression="snappy") as writer:
        for index in range(source.num_row_groups):
            writer.write_table(shift.table(source.read_row_group(index)))
    return target.stat().st_size
