"""Silver: one row for each attempt and each run, brought up to date by the events of a batch.

A row is open until its attempt or run is finished, and final afterwards. Open rows are grouped in shelves of runs (see
the SQL); a batch rewrites the shelves of its runs and appends what has become final, so that its cost grows only with
the new events. A final row changes only when an event comes late: its file is found by its range of runs, then by its
keys, and no other file is written again. In a row whose first event is missing, because it comes late or was trimmed,
the column `first` is null.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from .delta_table import LakeTable, all_of, has_nulls, in_partition, overlapping
from .frames import from_sql, holding, read
from .storage.data_file import DataFile

SHELF = 16384
"""How many runs share a shelf: as in the SQL."""
FEW = 16


def shelves(batch: DataFrame, files: Sequence[DataFile]) -> set[int]:
    """Return the shelves of the runs of a batch, or a few more."""
    low, high = (end // SHELF for end in (min(f.lowest["run"] for f in files), max(f.highest["run"] for f in files)))
    if high - low < FEW:
        return set(range(low, high + 1))
    return {row[0] for row in batch.selectExpr(f"run div {SHELF} AS shelf").distinct().collect()}


class SilverTable:
    """One silver table. `first` is the column that the first event of a row sets."""

    def __init__(self, spark: SparkSession, table: LakeTable, first: str) -> None:
        self._spark = spark
        self.table = table
        self._first = first
        self._key = list(table.schema.key)

    def write(self, batch: DataFrame, number: int, touched: set[int]) -> tuple[list[DataFile], list[DataFile]]:
        """Return files with the rows as the batch leaves them, and the files that these replace."""
        old = self.table.files(in_partition("shelf", sorted(touched)))
        old += self._awaited(batch, touched)
        new = self._fold(batch, number, old)
        late = self._late(new, old)
        if late:
            self.table.drop(new)
            old += late
            new = self._fold(batch, number, old)
        return new, old

    def _awaited(self, batch: DataFrame, touched: set[int]) -> list[DataFile]:
        """Return final files with a row whose first event is missing, and may be one of the batch's."""
        ranges = [(shelf * SHELF, (shelf + 1) * SHELF - 1) for shelf in touched]
        lacking = self.table.files(
            all_of(in_partition("shelf", None), has_nulls(self._first), overlapping("run", ranges))
        )
        return holding(self._spark, self.table, lacking, batch.select(*self._key).distinct())

    def _late(self, new: Sequence[DataFile], old: Sequence[DataFile]) -> list[DataFile]:
        """Return final files with a row of a run of which the batch has only later events.

        Its first event is missing, or its row is final already. That is looked up once: not for a row that was open.
        """
        lacking = [file for file in new if file.nulls.get(self._first)]
        if not lacking:
            return []
        ranges = [(file.lowest["run"], file.highest["run"]) for file in lacking]
        known = {file.path for file in old}
        final = self.table.files(all_of(in_partition("shelf", None), overlapping("run", ranges)))
        final = [file for file in final if file.path not in known]
        if not final:
            return []
        runs = read(self._spark, self.table, lacking).where(f"{self._first} IS NULL").select(*self._key).distinct()
        opened = read(self._spark, self.table, old).select(*self._key).distinct()
        return holding(self._spark, self.table, final, runs.join(opened, self._key, "left_anti"))

    def _fold(self, batch: DataFrame, number: int, old: Sequence[DataFile]) -> list[DataFile]:
        known = read(self._spark, self.table, old)
        return self.table.write(from_sql(self._spark, self.table.schema.name, batch=batch, known=known), number)
