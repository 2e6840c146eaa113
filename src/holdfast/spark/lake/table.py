"""A table of the lake: Parquet files that Spark writes, in a Delta table that delta-rs commits."""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from .shape import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APP = "holdfast"
"""The application of every transaction; its version is the number of the batch."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
_PLAIN = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date)


@dataclass(frozen=True)
class File:
    """One Parquet file of a table, and what is known of its rows without reading them."""

    path: str
    """Below the table's folder."""
    size: int
    rows: int
    partition: dict[str, str | None]
    lowest: dict[str, Any] = field(default_factory=dict)
    highest: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    def overlaps(self, column: str, low: Any, high: Any) -> bool:
        """True when a row may have a value from `low` to `high` in the column."""
        lowest, highest = self.lowest.get(column), self.highest.get(column)
        return lowest is None or highest is None or (lowest <= high and highest >= low)


class Table:
    """A table of the lake, made when it is first opened."""

    def __init__(self, lake: Path, shape: Shape) -> None:
        self.shape = shape
        self.path = lake / shape.name
        self._delta: DeltaTable | None = None

    @property
    def delta(self) -> DeltaTable:
        """The Delta table, as it stood when it was last looked at."""
        if self._delta is None:
            self._delta = self._open()
        return self._delta

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(str(self.path))
        except TableNotFoundError:
            return DeltaTable.create(
                str(self.path), self.shape.arrow, mode="ignore", partition_by=list(self.shape.partition),
                name=self.shape.name, description=self.shape.meaning,
            )  # fmt: skip

    def refresh(self) -> None:
        """What others have committed is seen."""
        self.delta.update_incremental()

    @property
    def batch(self) -> int:
        """The last batch that was committed; 0 before the first."""
        return self.delta.transaction_version(APP) or 0

    def files(self, keep: Callable[[File], bool] = lambda file: True) -> list[File]:
        """Return the files that the table consists of, or those to keep."""
        found = pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()
        return [file for file in map(self._file, found) if keep(file)]

    def _file(self, row: dict[str, Any]) -> File:
        def part(prefix: str) -> dict[str, Any]:
            return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}

        partition = {name: None if value is None else str(value) for name, value in part("partition.").items()}
        return File(
            path=unquote(row["path"]), size=row["size_bytes"], rows=row["num_records"] or 0, partition=partition,
            lowest=part("min."), highest=part("max."), nulls=part("null_count."),
        )  # fmt: skip

    def uris(self, files: Iterable[File]) -> list[str]:
        """Return where the files are, as Spark reads them: signs of its patterns stand for themselves."""
        return [re.sub(r"([*?{}])", r"\\\1", str(self.path / file.path)) for file in files]

    def write(self, frame: DataFrame, batch: int) -> list[File]:
        """Executors have written the rows as new files, of which no reader knows before `commit`."""
        folder = self.path / f"b{batch:09d}-{uuid.uuid4().hex[:8]}"
        writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*self.shape.partition).parquet(str(folder))
        return [self._written(path) for path in sorted(folder.rglob("*.parquet"))]

    def _written(self, path: Path) -> File:
        inner = path.relative_to(self.path)
        values = dict(part.split("=", 1) for part in inner.parts[1:-1])
        partition = {name: None if value == _NULL else unquote(value) for name, value in values.items()}
        return measured(path, str(inner), partition, self.shape.arrow)

    def commit(self, batch: int, added: Sequence[File], removed: Sequence[File] = ()) -> None:
        """The files are in the table and the others no more, in one step and once for each batch."""
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, file.partition, now, True, stats(file)) for file in added
        ]
        actions += [RemoveAction(file.path, True, now, file.size, file.partition) for file in removed]
        self.delta.create_write_transaction(
            actions, "append", self.shape.arrow, list(self.shape.partition), commit_properties=once(batch)
        )
        self.refresh()

    def drop(self, files: Iterable[File]) -> None:
        """Files that were written and not committed are gone."""
        for folder in {self.path / Path(file.path).parts[0] for file in files}:
            shutil.rmtree(folder, ignore_errors=True)

    def upsert(self, rows: pa.Table, batch: int, change: dict[str, str] | None = None) -> None:
        """Each row is there, in place of the one with its key; with `change`, that one is changed so."""
        if rows.num_rows == 0:
            self.commit(batch, [])
            return
        same = " AND ".join(f"t.{name} = s.{name}" for name in ("day", *self.shape.key))
        merger = self.delta.merge(rows, same, "s", "t", commit_properties=once(batch))
        matched = merger.when_matched_update(change) if change else merger.when_matched_update_all()
        matched.when_not_matched_insert_all().execute()
        self.refresh()


def once(batch: int) -> CommitProperties:
    """Return what makes a commit that of one batch. It fails when anybody else has committed meanwhile."""
    return CommitProperties(app_transactions=[Transaction(APP, batch)], max_commit_retries=0)


def measured(path: Path, inner: str, partition: dict[str, str | None], schema: pa.Schema) -> File:
    """Return a file with the range of each plain column, from its footer."""
    footer = pq.read_metadata(path)
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        groups = [footer.row_group(number).column(index) for number in range(footer.num_row_groups)]
        name = groups[0].path_in_schema if groups else ""
        found = [group.statistics for group in groups]
        if not found or any(each is None for each in found) or not any(is_(schema.field(name).type) for is_ in _PLAIN):
            continue
        nulls[name] = sum(each.null_count or 0 for each in found)
        ranged = [each for each in found if each.has_min_max]
        if ranged:
            lowest[name], highest[name] = min(each.min for each in ranged), max(each.max for each in ranged)
    return File(inner, path.stat().st_size, footer.num_rows, partition, lowest, highest, nulls)


def stats(file: File) -> str:
    """Return what a Delta log says of a file's rows."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: _plain(value) for name, value in file.lowest.items()},
            "maxValues": {name: _plain(value) for name, value in file.highest.items()},
            "nullCount": file.nulls,
        }
    )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return re.sub(r"\+00:00$", "Z", value.isoformat(timespec="microseconds"))
    return value.isoformat() if isinstance(value, date) else value
