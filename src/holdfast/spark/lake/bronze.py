"""Bronze: every event, as it was written."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .batches import LakeBatch
from .delta_table import Files, LakeTable, all_of, overlapping
from .event_log import EventLog, LogShares, SharedLog
from .frames import read
from .steps import OnStep
from .storage.data_file import DataFile

IDENTITY = ["epoch", "queue", "sequence", "id", "run", "attempt", "transition", "at"]


class BronzeTable:
    """The table of events."""

    def __init__(self, spark: SparkSession, table: LakeTable) -> None:
        self._spark = spark
        self.table = table

    def take(self, batch: LakeBatch, log: EventLog, on_step: OnStep) -> list[DataFile]:
        """Write the batch's events, unless an earlier run did; return their files."""
        number = batch.batch
        if self.table.batch < number:
            files = self._written(batch, log)
            on_step("events written")
            self.table.commit(number, files)
            on_step("events committed")
        return self.table.files(overlapping("batch", [(number, number)]))

    def _written(self, batch: LakeBatch, log: EventLog) -> list[DataFile]:
        number, after, upto = batch.batch, batch.after, batch.upto
        if isinstance(log, SharedLog) and not batch.again:
            return self._write_shares(log.shares(self._spark, after, upto), number)
        events = log.frame(self._spark, after, upto)
        return self._fresh(events, number) if batch.again else self._write(events, number)

    def _write_shares(self, shares: LogShares, number: int) -> list[DataFile]:
        count = len(shares.partitions)
        numbers = self._spark.range(0, count, 1, max(1, count))
        return self.table.write_shares(
            numbers, lambda share: (_dated(rows, number) for rows in shares.read(share)), number
        )

    def rows(self, number: int, files: Sequence[DataFile]) -> DataFrame:
        """Return the events of a batch, from its files."""
        return read(self._spark, self.table, files).where(f"batch = {number}")

    def _write(self, events: DataFrame, number: int) -> list[DataFile]:
        return self.table.write(events.selectExpr("*", f"{number}L AS batch", "CAST(at AS date) AS day"), number)

    def _fresh(self, events: DataFrame, number: int) -> list[DataFile]:
        """Write the events that the lake lacks.

        They are written once as they come: then their ranges are known, and only files of these are compared.
        """
        staged = self._write(events.dropDuplicates(IDENTITY), number)
        known = self.table.files(_like(staged)) if staged else []
        if not known:
            return staged
        had = read(self._spark, self.table, known, columns=IDENTITY)
        lacking = read(self._spark, self.table, staged).drop("batch").join(had, IDENTITY, "left_anti")
        files = self._write(lacking, number)
        self.table.drop(staged)
        return files


def _dated(events: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Return events with their batch and day, as `_write` gives them."""
    batch, day = pa.array([number] * events.num_rows, pa.int64()), events["at"].cast(pa.date32())
    return events.append_column("batch", batch).append_column("day", day)


def _like(files: Sequence[DataFile]) -> Files:
    """Return the choice of files that may hold an event of these files."""
    ranges = {name: [(file.lowest[name], file.highest[name]) for file in files] for name in ("at", "sequence", "epoch")}
    return all_of(*(overlapping(name, found) for name, found in ranges.items()))
