"""A table of the lake: Parquet files that executors write, in a Delta table that delta-rs commits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from .storage.data_file import DataFile, Value
from .storage.location import LakeLocation
from .storage.parquet_writer import TOLD, Batches, WriteTarget, file_writer, share_writer
from .storage.storage_errors import plain_storage_errors
from .table_schema import QUERIED, TableSchema
from .table_version import PROPERTIES, bring_up_to_date, missing_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APP = "holdfast"
"""The application of every transaction; its version is the number of the batch."""
Files = Callable[[pa.Table], pc.Expression]
"""Which files are wanted, as an expression over the columns of the log's add actions."""


class LakeTable:
    """A table of the lake, made when it is first opened, or given the columns that it lacks; not with `read_only`."""

    def __init__(self, lake: LakeLocation | Path, schema: TableSchema, *, read_only: bool = False) -> None:
        self.schema = schema
        self._read_only = read_only
        self.lake = LakeLocation.of(lake)
        self.location = self.lake / schema.name
        self._delta: DeltaTable | None = None
        self._actions: tuple[int, pa.Table] | None = None

    @property
    def delta(self) -> DeltaTable:
        """The Delta table, as of the last refresh."""
        if self._delta is None:
            with plain_storage_errors(self.lake):
                self._delta = self._open()
        return self._delta

    def _open(self) -> DeltaTable:
        uri, options = self.location.uri, dict(self.location.options)
        try:
            found = DeltaTable(uri, storage_options=options)
        except TableNotFoundError:
            if self._read_only:
                raise
            return DeltaTable.create(
                uri, self.schema.arrow, mode="ignore", partition_by=list(self.schema.partition),
                storage_options=options, name=self.schema.name, description=self.schema.meaning,
                configuration=dict(PROPERTIES), raise_if_key_not_exists=False,
            )  # fmt: skip
        if not self._read_only:
            bring_up_to_date(found, self.schema, self.lake)
        return found

    @property
    def missing(self) -> list[str]:
        """The columns that an older Holdfast did not write, and that one who only reads does not add."""
        return missing_columns(self.delta, self.schema, self.lake) if self._read_only else []

    @property
    def exists(self) -> bool:
        """Whether the table is there: one who only reads makes none."""
        return self._delta is not None or DeltaTable.is_deltatable(self.location.uri, dict(self.location.options))

    def refresh(self) -> None:
        """Read what other processes have committed."""
        with plain_storage_errors(self.lake):
            self.delta.update_incremental()

    @property
    def batch(self) -> int:
        """The last batch that was committed; 0 before the first."""
        return self.delta.transaction_version(APP) or 0

    def actions(self) -> pa.Table:
        """Return the files of the table as the log's state has them, one row each, read once for each version."""
        version = self.delta.version()
        if self._actions is None or self._actions[0] != version:
            self._actions = version, pa.table(self.delta.get_add_actions(flatten=True))
        return self._actions[1]

    def files(self, wanted: Files | None = None) -> list[DataFile]:
        """Return the files of the table, or those that are wanted. Only these become objects of Python."""
        found = self.actions()
        return [DataFile.from_action(row) for row in (found.filter(wanted(found)) if wanted else found).to_pylist()]

    def write(self, frame: DataFrame, batch: int, compression: str = "snappy") -> list[DataFile]:
        """Have executors write the rows as new files, which no reader sees before `commit`; return the files."""
        return self._told(frame.select(*self.schema.names), file_writer(self._target(batch, compression)))

    def write_shares(self, numbers: DataFrame, read: Callable[[int], Batches], batch: int) -> list[DataFile]:
        """Have executors read the rows of these shares, and write them in the same way."""
        return self._told(numbers, share_writer(self._target(batch), read))

    def _target(self, batch: int, compression: str = "snappy") -> WriteTarget:
        return WriteTarget(self.location, self.schema, f"b{batch:09d}-{uuid.uuid4().hex[:8]}", compression)

    def _told(self, frame: DataFrame, work: Callable[[Batches], Batches]) -> list[DataFile]:
        """Have executors do the work; return the files of which they tell."""
        return [DataFile.decoded(row[0], self.schema.arrow) for row in frame.mapInArrow(work, TOLD).collect()]

    def commit(self, batch: int, added: Sequence[DataFile], removed: Sequence[DataFile] = ()) -> None:
        """Add files to the table and remove others, in one step and once for each batch."""
        self._commit(added, removed, once_for(batch), data_change=True)

    def replace(self, added: Sequence[DataFile], removed: Sequence[DataFile]) -> None:
        """Put files in place of others that have the same rows."""
        self._commit(added, removed, CommitProperties(max_commit_retries=0), data_change=False)

    def _commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], how: CommitProperties, *, data_change: bool
    ) -> None:
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, file.partition, now, data_change, file.stats()) for file in added
        ]
        actions += [RemoveAction(file.path, data_change, now, file.size, file.partition) for file in removed]
        with plain_storage_errors(self.lake):
            self.delta.create_write_transaction(
                actions, "append", self.schema.arrow, list(self.schema.partition), commit_properties=how
            )
        self.refresh()

    def drop(self, files: Iterable[DataFile]) -> None:
        """Delete files that were written and not committed."""
        chosen = [file.path for file in files]
        self.location.remove(chosen)
        if self.location.is_local:
            for folder in {path.partition("/")[0] for path in chosen}:
                self.location.remove_folder(folder)


def overlapping(column: str, ranges: Sequence[tuple[Value, Value]]) -> Files:
    """Return the choice of files that may have a row with a value in one of the ranges."""

    def wanted(actions: pa.Table) -> pc.Expression:
        if f"min.{column}" not in actions.schema.names:
            return pc.scalar(True)
        low, high = pc.field(f"min.{column}"), pc.field(f"max.{column}")
        type = actions.schema.field(f"min.{column}").type
        found = low.is_null() | high.is_null()
        for least, most in ranges:
            found = found | ((low <= pa.scalar(most, type)) & (high >= pa.scalar(least, type)))
        return found

    return wanted


def in_partition(column: str, values: Sequence[Value] | None) -> Files:
    """Return the choice of files whose partition has one of these values; with `None`, has none."""

    def wanted(actions: pa.Table) -> pc.Expression:
        name = f"partition.{column}"
        if name not in actions.schema.names:
            return pc.scalar(True)
        if values is None:
            return pc.field(name).is_null()
        return pc.field(name).isin(pa.array(values, actions.schema.field(name).type))

    return wanted


def has_nulls(column: str) -> Files:
    """Return the choice of files that have a row without a value in the column."""

    def wanted(actions: pa.Table) -> pc.Expression:
        name = f"null_count.{column}"
        return pc.field(name) > 0 if name in actions.schema.names else pc.scalar(True)

    return wanted


def all_of(*choices: Files) -> Files:
    """Return the choice of files that every one of these would take."""

    def wanted(actions: pa.Table) -> pc.Expression:
        found = pc.scalar(True)
        for choice in choices:
            found = found & choice(actions)
        return found

    return wanted


def query(tables: Mapping[str, LakeTable], sql: str) -> pa.Table:
    """Return the rows of a SELECT over tables by these names. Neither Spark nor Java is needed."""
    builder = QueryBuilder()
    for name, table in tables.items():
        _register(builder, name, table)
    # Not `pa.table`, which imports pandas: that takes longer than a whole report.
    return pa.RecordBatchReader.from_stream(builder.execute(sql)).read_all()


def _register(builder: QueryBuilder, name: str, table: LakeTable) -> None:
    """Give a query a table by this name, with null in the columns that the table lacks."""
    missing = table.missing
    if not missing:
        builder.register(name, table.delta)
        return
    builder.register(f"stored_{name}", table.delta)
    types = {each: QUERIED[table.schema.arrow.field(each).type] for each in missing}
    nulls = ", ".join(f"arrow_cast(NULL, '{type}') AS {each}" for each, type in types.items())
    made = builder.execute(f"CREATE VIEW {name} AS SELECT *, {nulls} FROM stored_{name}")
    pa.RecordBatchReader.from_stream(made).read_all()


def once_for(batch: int) -> CommitProperties:
    """Return the properties of a commit that counts once for a batch, and fails if another was made meanwhile."""
    return CommitProperties(app_transactions=[Transaction(APP, batch)], max_commit_retries=0)
