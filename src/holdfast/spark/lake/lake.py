"""The lake: a folder of tables that `holdfast lake run` keeps up to date with the event log of one store."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, SparkSession

from ...app.app import Holdfast
from ...errors import ConfigError, LakeBusy
from ..errors import own_errors
from . import gold
from .batches import BatchLog, LakeBatch
from .delta_table import DataFile, LakeTable
from .frames import events_between, own_session, read
from .schemas import ATTEMPTS, ERRORS, EVENTS, JOBS, MINUTES, TENANTS, WORKERS
from .silver import SilverTable, shelves
from .steps import OnStep, ignore_step

log = logging.getLogger("holdfast.lake")
AT_ONCE = 3
"""How many tables are worked on at the same time."""
_REFUSED = re.compile(r"[\[\]^|\\\x00-\x1f]")
"""Characters in a path at which delta-rs panics."""
IDENTITY = ["epoch", "queue", "sequence", "id", "run", "attempt", "transition", "at"]


@dataclass(frozen=True)
class BatchResult:
    """What a batch added to the lake."""

    batch: int
    events: int
    seconds: float
    missing: int
    """Events that were trimmed before they could be read."""


def lake_folder(path: str | Path) -> Path:
    """Return the absolute folder of a lake; raise when a lake cannot be there."""
    if ":/" in str(path):
        raise ConfigError(f"the lake {str(path)!r}: give a folder, which the driver and all executors see")
    folder = Path(path).absolute()
    if refused := _REFUSED.search(str(folder)):
        raise ConfigError(f"the lake {str(path)!r}: Delta tables cannot lie below a name with {refused[0]!r} in it")
    return folder


class Lake:
    """Bring a lake up to date, batch by batch. Every step may be repeated, and counts once."""

    def __init__(self, path: str | Path, app: Holdfast, spark: SparkSession, on_step: OnStep = ignore_step) -> None:
        self.path = lake_folder(path)
        self._app = app
        self._spark = spark = own_session(spark)
        self._on_step = on_step
        self._batches = BatchLog(self.path)
        self._events = LakeTable(self.path, EVENTS)
        self._silver = [
            SilverTable(spark, LakeTable(self.path, ATTEMPTS), "started_at"),
            SilverTable(spark, LakeTable(self.path, JOBS), "enqueued_at"),
        ]
        self._gold = [LakeTable(self.path, schema) for schema in (TENANTS, ERRORS, MINUTES, WORKERS)]
        self._tables = [self._events, *(silver.table for silver in self._silver), *self._gold]

    def read_new(self) -> BatchResult | None:
        """Read a batch of new events into the lake; return what it added, `None` when there was nothing new."""
        try:
            with own_errors():
                return self._read_new()
        except CommitFailedError as error:
            raise LakeBusy(f"{self.path}: another process has just written to this lake: {error}") from error

    def _read_new(self) -> BatchResult | None:
        for table in self._tables:
            table.refresh()
        last = self._batches.last()
        batch = self._planned(last)
        if batch is None:
            if last is not None:
                self._keep_unread(last)
            return None
        began = time.monotonic()
        self._on_step("planned")
        new = self._bronze(batch)
        missing = self._note_gap(batch)
        self._derive(batch.batch, new) if new else self._gold[-1].commit(batch.batch, [])
        self._keep_unread(batch)
        self._on_step("held")
        return BatchResult(batch.batch, sum(file.rows for file in new), time.monotonic() - began, missing)

    def _keep_unread(self, batch: LakeBatch) -> None:
        """Have the store keep the events that this lake has not read."""
        self._app.sync(self._app.store.hold(batch.reader, batch.upto))

    def _planned(self, last: LakeBatch | None) -> LakeBatch | None:
        if last is not None and self._gold[-1].batch < last.batch:
            return last
        return self._batches.next(self._app, last)

    def _bronze(self, batch: LakeBatch) -> list[DataFile]:
        """Write the batch's events, unless an earlier run did; return their files."""
        if self._events.batch < batch.batch:
            files = self._events.write(self._new_events(batch), batch.batch)
            self._on_step("events written")
            self._events.commit(batch.batch, files)
            self._on_step("events committed")
        return self._events.files(lambda file: file.overlaps("batch", batch.batch, batch.batch))

    def _new_events(self, batch: LakeBatch) -> DataFrame:
        events = events_between(self._spark, self._app.store.url, batch.after, batch.upto)
        if batch.again:
            known = read(self._spark, self._events, self._events.files()).select(*IDENTITY)
            events = events.dropDuplicates(IDENTITY).join(known, IDENTITY, "left_anti")
        events = events.selectExpr("*", f"{batch.batch}L AS batch", "CAST(at AS date) AS day")
        return events.select(*EVENTS.names)

    def _note_gap(self, batch: LakeBatch) -> int:
        """Return how many events were trimmed before they were read. Asked after reading, so that none is missed."""
        missing = self._app.sync(self._app.store.events(batch.after, limit=1)).gap
        if missing:
            self._batches.note_gap(batch, missing, batch.after)
            log.warning("log_gap: trimmed before the lake had read it: %s events are missing", f"{missing:,}")
        return missing

    def _derive(self, number: int, new: list[DataFile]) -> None:
        """Bring silver and gold up to date with the batch. Actions of operators are of no run, and stay in bronze."""
        batch = read(self._spark, self._events, new).where(f"batch = {number} AND {gold.OF_A_RUN}")
        behind = [silver for silver in self._silver if silver.table.batch < number]
        needed = [table for table in self._gold if table.batch < number]
        touched = shelves(batch, new) if behind else set()
        frames = gold.frames(self._spark, self._events, batch, new)
        # No table needs another's rows, so Spark works on several at once. They are committed one after the other.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            silver_files = [pool.submit(silver.write, batch, number, touched) for silver in behind]
            gold_rows = [pool.submit(gold.rows, frames[table.schema.name], table) for table in needed]
            for silver, files in zip(behind, silver_files, strict=True):
                self._commit_silver(silver.table, number, *files.result())
            for table, found in zip(needed, gold_rows, strict=True):
                self._commit_gold(table, number, found.result())

    def _commit_silver(self, table: LakeTable, number: int, added: list[DataFile], removed: list[DataFile]) -> None:
        self._on_step(f"{table.schema.name} written")
        table.commit(number, added, removed)
        self._on_step(f"{table.schema.name} committed")

    def _commit_gold(self, table: LakeTable, number: int, rows: pa.Table) -> None:
        table.upsert(rows, number, gold.ADD if table.schema is WORKERS else None)
        self._on_step(f"{table.schema.name} committed")


OnResult = Callable[[BatchResult | LakeBusy | None], None]


def follow(
    lake: Lake, every: float | None, on_result: OnResult, wait: Callable[[float], bool] = lambda seconds: False
) -> None:
    """Bring the lake up to date; with `every`, again after so many seconds, until `wait` returns True."""
    while True:
        began = time.monotonic()
        try:
            done = lake.read_new()
            on_result(done)
        except LakeBusy as busy:
            done = None
            on_result(busy)
        if done is None and every is None:
            return
        rest = 0.0 if done is not None or every is None else max(0.0, every - (time.monotonic() - began))
        if wait(rest):
            return
