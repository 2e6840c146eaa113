"""A table of the lake: Parquet files that Spark writes, in a Delta table that delta-rs commits."""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from .table_schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APP = "holdfast"
"""The application of every transaction; its version is the number of the batch."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
Value: TypeAlias = Any  # of a column of any type: compared only with values of the same column
_PLAIN = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date)


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table, and what is known of its rows without reading them."""

    path: str
    """Below the table's folder."""
    size: int
    rows: int
    partition: dict[str, str | None]
    lowest: dict[str, Value] = field(default_factory=dict)
    highest: dict[str, Value] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    def overlaps(self, column: str, low: Value, high: Value) -> bool:
        """Return whether a row may have a value from `low` to `high` in the column."""
        lowest, highest = self.lowest.get(column), self.highest.get(column)
        return lowest is None or highest is None or (lowest <= high and highest >= low)


class LakeTable:
    """A table of the lake, made when it is first opened."""

    def __init__(self, lake: Path, schema: TableSchema) -> None:
        self.schema = schema
        self.path = lake / schema.name
        self._delta: DeltaTable | None = None

    @property
    def delta(self) -> DeltaTable:
        """The Delta table, as of the last refresh."""
        if self._delta is None:
            self._delta = self._open()
        return self._delta

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(str(self.path))
        except TableNotFoundError:
            return DeltaTable.create(
                str(self.path), self.schema.arrow, mode="ignore", partition_by=list(self.schema.partition),
                name=self.schema.name, description=self.schema.meaning,
            )  # fmt: skip

    def refresh(self) -> None:
        """Read what other processes have committed."""
        self.delta.update_incremental()

    @property
    def batch(self) -> int:
        """The last batch that was committed; 0 before the first."""
        return self.delta.transaction_version(APP) or 0

    def files(self, keep: Callable[[DataFile], bool] = lambda file: True) -> list[DataFile]:
        """Return the files of the table, or those for which `keep` is true."""
        found = pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()
        return [file for file in map(self._file, found) if keep(file)]

    def _file(self, row: dict[str, Value]) -> DataFile:
        def part(prefix: str) -> dict[str, Value]:
            return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}

        partition = {name: None if value is None else str(value) for name, value in part("partition.").items()}
        return DataFile(
            path=unquote(row["path"]), size=row["size_bytes"], rows=row["num_records"] or 0, partition=partition,
            lowest=part("min."), highest=part("max."), nulls=part("null_count."),
        )  # fmt: skip

    def uris(self, files: Iterable[DataFile]) -> list[str]:
        """Return the paths of files for Spark, with the characters of its patterns escaped."""
        return [re.sub(r"([*?{}])", r"\\\1", str(self.path / file.path)) for file in files]

    def write(self, frame: DataFrame, batch: int) -> list[DataFile]:
        """Have executors write the rows as new files, which no reader sees before `commit`; return the files."""
        folder = self.path / f"b{batch:09d}-{uuid.uuid4().hex[:8]}"
        writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*self.schema.partition).parquet(str(folder))
        return [self._written(path) for path in sorted(folder.rglob("*.parquet"))]

    def _written(self, path: Path) -> DataFile:
        inner = path.relative_to(self.path)
        values = dict(part.split("=", 1) for part in inner.parts[1:-1])
        partition = {name: None if value == _NULL else unquote(value) for name, value in values.items()}
        return measured(path, str(inner), partition, self.schema.arrow)

    def commit(self, batch: int, added: Sequence[DataFile], removed: Sequence[DataFile] = ()) -> None:
        """Add files to the table and remove others, in one step and once for each batch."""
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, file.partition, now, True, stats(file)) for file in added
        ]
        actions += [RemoveAction(file.path, True, now, file.size, file.partition) for file in removed]
        self.delta.create_write_transaction(
            actions, "append", self.schema.arrow, list(self.schema.partition), commit_properties=once_for(batch)
        )
        self.refresh()

    def drop(self, files: Iterable[DataFile]) -> None:
        """Delete files that were written and not committed."""
        for folder in {self.path / Path(file.path).parts[0] for file in files}:
            shutil.rmtree(folder, ignore_errors=True)

    def upsert(self, rows: pa.Table, batch: int, change: dict[str, str] | None = None) -> None:
        """Put each row in place of the one with its key; with `change`, change that one by these expressions."""
        if rows.num_rows == 0:
            self.commit(batch, [])
            return
        same = " AND ".join(f"t.{name} = s.{name}" for name in ("day", *self.schema.key))
        merger = self.delta.merge(rows, same, "s", "t", commit_properties=once_for(batch))
        matched = merger.when_matched_update(change) if change else merger.when_matched_update_all()
        matched.when_not_matched_insert_all().execute()
        self.refresh()


def query(tables: Mapping[str, LakeTable], sql: str) -> pa.Table:
    """Return the rows of a SELECT over tables by these names. Neither Spark nor Java is needed."""
    builder = QueryBuilder()
    for name, table in tables.items():
        builder.register(name, table.delta)
    return pa.table(builder.execute(sql).read_all())


def once_for(batch: int) -> CommitProperties:
    """Return the properties of a commit that counts once for a batch, and fails if another was made meanwhile."""
    return CommitProperties(app_transactions=[Transaction(APP, batch)], max_commit_retries=0)


def measured(path: Path, inner: str, partition: dict[str, str | None], schema: pa.Schema) -> DataFile:
    """Return a file with the range of each number and time column, from its footer."""
    footer = pq.read_metadata(path)
    lowest: dict[str, Value] = {}
    highest: dict[str, Value] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        groups = [footer.row_group(number).column(index) for number in range(footer.num_row_groups)]
        name = groups[0].path_in_schema if groups else ""
        found = [group.statistics for group in groups]
        if name not in schema.names or not any(is_(schema.field(name).type) for is_ in _PLAIN):
            continue  # also the parts of an array, which are no columns of their own
        if any(each is None for each in found):
            continue
        nulls[name] = sum(each.null_count or 0 for each in found)
        ranged = [each for each in found if each.has_min_max]
        if ranged:
            lowest[name], highest[name] = min(each.min for each in ranged), max(each.max for each in ranged)
    return DataFile(inner, path.stat().st_size, footer.num_rows, partition, lowest, highest, nulls)


def stats(file: DataFile) -> str:
    """Return the statistics of a file as a Delta log has them."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: _plain(value) for name, value in file.lowest.items()},
            "maxValues": {name: _plain(value) for name, value in file.highest.items()},
            "nullCount": file.nulls,
        }
    )


def _plain(value: Value) -> Value:
    if isinstance(value, datetime):
        return re.sub(r"\+00:00$", "Z", value.isoformat(timespec="microseconds"))
    return value.isoformat() if isinstance(value, date) else value
