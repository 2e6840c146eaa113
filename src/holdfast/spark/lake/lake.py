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

from ...app import Holdfast
from ...errors import ConfigError, LakeBusy
from ..plainly import told_plainly
from . import gold
from .frame import read
from .own import session_of
from .plan import Batch, Plan
from .probe import Reached, nothing
from .schema import ATTEMPTS, ERRORS, EVENTS, JOBS, MINUTES, TENANTS, WORKERS
from .silver import Silver, shelves
from .source import events_between
from .table import File, Table

log = logging.getLogger("holdfast.lake")
AT_ONCE = 3
"""So many tables are worked on at the same time."""
_REFUSED = re.compile(r"[\[\]^|\\\x00-\x1f]")
"""Signs at which delta-rs panics."""
IDENTITY = ["epoch", "queue", "sequence", "id", "run", "attempt", "transition", "at"]


@dataclass(frozen=True)
class Done:
    """What a batch brought."""

    batch: int
    events: int
    seconds: float
    missing: int
    """Events that were trimmed before they could be read."""


def lake_folder(path: str | Path) -> Path:
    """Return where a lake is, or say why it cannot be there."""
    if ":/" in str(path):
        raise ConfigError(f"the lake {str(path)!r}: give a folder, which the driver and all executors see")
    folder = Path(path).absolute()
    if refused := _REFUSED.search(str(folder)):
        raise ConfigError(f"the lake {str(path)!r}: Delta tables cannot lie below a name with {refused[0]!r} in it")
    return folder


class Lake:
    """Brings a lake up to date, batch by batch. Every step may be repeated, and counts once."""

    def __init__(self, path: str | Path, app: Holdfast, spark: SparkSession, reached: Reached = nothing) -> None:
        self.path = lake_folder(path)
        self._app = app
        self._spark = spark = session_of(spark)
        self._reached = reached
        self._plan = Plan(self.path)
        self._events = Table(self.path, EVENTS)
        self._silver = [
            Silver(spark, Table(self.path, ATTEMPTS), "started_at"),
            Silver(spark, Table(self.path, JOBS), "enqueued_at"),
        ]
        self._gold = [Table(self.path, shape) for shape in (TENANTS, ERRORS, MINUTES, WORKERS)]
        self._tables = [self._events, *(silver.table for silver in self._silver), *self._gold]

    def update(self) -> Done | None:
        """All that has happened is in the lake; return what was done, `None` when there was nothing new."""
        try:
            with told_plainly():
                return self._update()
        except CommitFailedError as error:
            raise LakeBusy(f"{self.path}: another process has just written to this lake: {error}") from error

    def _update(self) -> Done | None:
        for table in self._tables:
            table.refresh()
        last = self._plan.last()
        batch = self._planned(last)
        if batch is None:
            if last is not None:
                self._hold(last)
            return None
        began = time.monotonic()
        self._reached("planned")
        new = self._bronze(batch)
        missing = self._note_gap(batch)
        self._derive(batch.batch, new) if new else self._gold[-1].commit(batch.batch, [])
        self._hold(batch)
        self._reached("held")
        return Done(batch.batch, sum(file.rows for file in new), time.monotonic() - began, missing)

    def _hold(self, batch: Batch) -> None:
        """The store keeps for this lake what it has not read."""
        self._app.sync(self._app.store.hold(batch.reader, batch.upto))

    def _planned(self, last: Batch | None) -> Batch | None:
        if last is not None and self._gold[-1].batch < last.batch:
            return last
        return self._plan.next(self._app, last)

    def _bronze(self, batch: Batch) -> list[File]:
        """Return the files that hold the batch's events, whichever run wrote them."""
        if self._events.batch < batch.batch:
            files = self._events.write(self._told(batch), batch.batch)
            self._reached("events written")
            self._events.commit(batch.batch, files)
            self._reached("events committed")
        return self._events.files(lambda file: file.overlaps("batch", batch.batch, batch.batch))

    def _told(self, batch: Batch) -> DataFrame:
        told = events_between(self._spark, self._app.store.url, batch.after, batch.upto)
        if batch.again:
            known = read(self._spark, self._events, self._events.files()).select(*IDENTITY)
            told = told.dropDuplicates(IDENTITY).join(known, IDENTITY, "left_anti")
        told = told.selectExpr("*", f"{batch.batch}L AS batch", "CAST(at AS date) AS day")
        return told.select(*EVENTS.names)

    def _note_gap(self, batch: Batch) -> int:
        """Return how many events were trimmed before they were read. Asked after reading: none can go unseen."""
        missing = self._app.sync(self._app.store.events(batch.after, limit=1)).gap
        if missing:
            self._plan.note_gap(batch, missing, batch.after)
            log.warning("the log was trimmed before the lake had read it: %s events are missing", f"{missing:,}")
        return missing

    def _derive(self, number: int, new: list[File]) -> None:
        """Silver and gold know of the batch."""
        batch = read(self._spark, self._events, new).where(f"batch = {number}")
        behind = [silver for silver in self._silver if silver.table.batch < number]
        needed = [table for table in self._gold if table.batch < number]
        touched = shelves(batch, new) if behind else set()
        frames = gold.frames(self._spark, self._events, batch, new)
        # None needs another's rows, so that Spark may work on all at once. They are committed one after the other.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            silver_files = [pool.submit(silver.write, batch, number, touched) for silver in behind]
            gold_rows = [pool.submit(gold.rows, frames[table.shape.name], table) for table in needed]
            for silver, files in zip(behind, silver_files, strict=True):
                self._commit_silver(silver.table, number, *files.result())
            for table, found in zip(needed, gold_rows, strict=True):
                self._commit_gold(table, number, found.result())

    def _commit_silver(self, table: Table, number: int, added: list[File], removed: list[File]) -> None:
        self._reached(f"{table.shape.name} written")
        table.commit(number, added, removed)
        self._reached(f"{table.shape.name} committed")

    def _commit_gold(self, table: Table, number: int, rows: pa.Table) -> None:
        table.upsert(rows, number, gold.ADD if table.shape is WORKERS else None)
        self._reached(f"{table.shape.name} committed")


Told = Callable[[Done | LakeBusy | None], None]


def follow(lake: Lake, every: float | None, told: Told, wait: Callable[[float], bool] = lambda seconds: False) -> None:
    """The lake is up to date; with `every`, again after so many seconds, until `wait` says that it is enough."""
    while True:
        began = time.monotonic()
        try:
            done = lake.update()
            told(done)
        except LakeBusy as busy:
            done = None
            told(busy)
        if done is None and every is None:
            return
        rest = 0.0 if done is not None or every is None else max(0.0, every - (time.monotonic() - began))
        if wait(rest):
            return
