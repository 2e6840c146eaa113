"""The lake: a folder or bucket of tables that `holdfast lake run` keeps up to date with the event log of one store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from ...app.app import Holdfast
from ...errors import LakeBusy, LakeError, StoreError
from ..errors import own_errors
from . import gold
from .batches import MOST, BatchLog, LakeBatch
from .bronze import BronzeTable
from .compaction import TIDY_EVERY, compact, delete_replaced
from .delta_table import LakeTable
from .event_log import EventLog, as_log
from .frames import own_session
from .messages import ErrorMessages
from .opening import require_lake
from .schemas import ATTEMPTS, ERRORS, EVENTS, JOBS, MINUTES, TENANTS, WORKERS
from .silver import SilverTable, shelves
from .steps import OnStep, ignore_step
from .storage.data_file import DataFile
from .storage.location import LakeLocation

log = logging.getLogger("holdfast.lake")
AT_ONCE = 3
"""How many tables are worked on at the same time."""
Changed = tuple[list[DataFile], list[DataFile]]
"""Files that were written, and files that they replace."""


@dataclass(frozen=True)
class BatchResult:
    """What a batch added to the lake."""

    batch: int
    events: int
    seconds: float
    missing: int
    """Events that were trimmed before they could be read."""


class Lake:
    """Bring a lake up to date, batch by batch. Every step may be repeated, and counts once.

    `source` is an app, whose store's log is read, or any other `EventLog`.
    """

    def __init__(
        self,
        path: str | Path | LakeLocation,
        source: Holdfast | EventLog,
        spark: SparkSession,
        on_step: OnStep = ignore_step,
        *,
        storage_options: Mapping[str, str] | None = None,
        most: int = MOST,
    ) -> None:
        self.location = LakeLocation.of(path, storage_options)
        self._log = as_log(source)
        self._spark = spark = own_session(spark)
        self._on_step = on_step
        self._most = most
        require_lake(self.location)
        self._batches = BatchLog(self.location)
        self._messages = ErrorMessages(self.location, source) if isinstance(source, Holdfast) else None
        self._bronze = BronzeTable(spark, LakeTable(self.location, EVENTS))
        self._silver = [
            SilverTable(spark, LakeTable(self.location, ATTEMPTS), "started_at"),
            SilverTable(spark, LakeTable(self.location, JOBS), "enqueued_at"),
        ]
        self._gold = [LakeTable(self.location, schema) for schema in (TENANTS, ERRORS, MINUTES, WORKERS)]
        self._tables = [self._bronze.table, *(silver.table for silver in self._silver), *self._gold]

    @property
    def path(self) -> Path | str:
        """The lake's folder, or its URL."""
        return self.location.path

    def read_new(self) -> BatchResult | None:
        """Read a batch of new events into the lake; return what it added, `None` when there was nothing new."""
        try:
            with own_errors():
                return self._read_new()
        except CommitFailedError as error:
            raise LakeBusy(f"{self.location}: another process has just written to this lake: {error}") from error

    def _read_new(self) -> BatchResult | None:
        last = self._batches.last()  # the first table that is made: by it a lake is known
        for table in self._tables:
            table.refresh()
        batch = self._planned(last)
        if batch is None:
            if last is not None:
                self._log.hold(last.reader, last.upto)
            return None
        began = time.monotonic()
        self._on_step("planned")
        new = self._bronze.take(batch, self._log, self._on_step)
        missing = self._note_gap(batch)
        self._derive(batch.batch, new) if new else self._gold[-1].commit(batch.batch, [])
        self._log.hold(batch.reader, batch.upto)
        self._on_step("held")
        self._tidy(batch.batch, new)
        if self._messages is not None:
            self._messages.learn(batch.planned_at)
        return BatchResult(batch.batch, sum(file.rows for file in new), time.monotonic() - began, missing)

    def _planned(self, last: LakeBatch | None) -> LakeBatch | None:
        if last is not None and self._gold[-1].batch < last.batch:
            return last
        return self._batches.next(self._log, last, self._most)

    def _note_gap(self, batch: LakeBatch) -> int:
        """Return how many events were trimmed before they were read. Asked after reading, so that none is missed."""
        missing = self._log.missing(batch.after)
        if missing:
            self._batches.note_gap(batch, missing, batch.after)
            log.warning("log_gap: trimmed before the lake had read it: %s events are missing", f"{missing:,}")
        return missing

    def _derive(self, number: int, new: list[DataFile]) -> None:
        """Bring silver and gold up to date with the batch. Actions of operators are of no run, and stay in bronze."""
        batch = self._bronze.rows(number, new).where(gold.OF_A_RUN)
        behind = [silver for silver in self._silver if silver.table.batch < number]
        needed = [table for table in self._gold if table.batch < number]
        touched = shelves(batch, new) if behind else set()
        frames = gold.frames(self._spark, self._bronze.table, batch, new)
        # No table needs another's rows, so Spark works on several at once. They are committed one after the other.
        with _pool() as pool:
            silver_files = [pool.submit(silver.write, batch, number, touched) for silver in behind]
            gold_files = [
                pool.submit(gold.write, self._spark, table, frames[table.schema.name], new, number) for table in needed
            ]
            for silver, changed in zip(behind, silver_files, strict=True):
                self._commit_silver(silver.table, number, changed.result())
            for table, changed in zip(needed, gold_files, strict=True):
                table.commit(number, *changed.result())
                self._on_step(f"{table.schema.name} committed")

    def _commit_silver(self, table: LakeTable, number: int, changed: Changed) -> None:
        self._on_step(f"{table.schema.name} written")
        table.commit(number, *changed)
        self._on_step(f"{table.schema.name} committed")

    def _tidy(self, number: int, new: list[DataFile]) -> None:
        """Merge some of the small files of each table; now and then delete what was replaced long ago."""
        until = max((high for _, high in gold.minutes_of(new)), default=None)
        until = until and until.replace(second=0, microsecond=0)
        for table in (*self._tables, self._batches.batches):
            compact(self._spark, table, number, until)
            if number % TIDY_EVERY == 0:
                delete_replaced(table)


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """Yield threads for the tables. After an error, as when another run was quicker, no further table is begun."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


OnResult = Callable[[BatchResult | LakeError | StoreError | None], None]


def follow(
    lake: Lake,
    every: float | None,
    on_result: OnResult,
    wait: Callable[[float], bool] = lambda seconds: False,
    *,
    persist: bool = False,
) -> None:
    """Bring the lake up to date; with `every`, again after so many seconds, until `wait` returns True.

    With `persist`, a store or storage that is away for a while is told of and tried again, as `LakeBusy` always is.
    """
    patient = (LakeError, StoreError) if persist else (LakeBusy,)
    while True:
        began = time.monotonic()
        done: BatchResult | None = None
        try:
            done = lake.read_new()
            on_result(done)
        except patient as error:
            on_result(error)
        if done is None and every is None:
            return
        rest = 0.0 if done is not None or every is None else max(0.0, every - (time.monotonic() - began))
        if wait(rest):
            return
