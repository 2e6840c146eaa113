"""Silver: one row for each attempt and each run, brought up to date by the events of a batch.

A row is open until its attempt or run is finished, and final afterwards. Open rows are grouped in shelves of runs (see
the SQL); a batch rewrites the shelves of its runs and appends what has become final, so that its cost grows only with
the new events. A final row changes only when an event comes late: then its file is found by its range of runs. In a row
whose first event is missing, because it comes late or was trimmed, the column `first` is null.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from .delta_table import DataFile, LakeTable
from .frames import from_sql, read

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

    def write(self, batch: DataFrame, number: int, touched: set[int]) -> tuple[list[DataFile], list[DataFile]]:
        """Return files with the rows as the batch leaves them, and the files that these replace."""
        names = {str(shelf) for shelf in touched}
        final = self.table.files(lambda file: file.partition["shelf"] is None and _meets(file, touched))
        old = self.table.files(lambda file: file.partition["shelf"] in names)
        old += [file for file in final if self._lacks_first(file)]  # their first event may come now
        new = self._fold(batch, number, old)
        late = [file for file in final if file not in old]
        if late and any(map(self._lacks_first, new)):
            # There is an event of a run whose first event is missing: its row is final, or the log was trimmed.
            self.table.drop(new)
            old += late
            new = self._fold(batch, number, old)
        return new, old

    def _lacks_first(self, file: DataFile) -> bool:
        return bool(file.nulls.get(self._first))

    def _fold(self, batch: DataFrame, number: int, old: Sequence[DataFile]) -> list[DataFile]:
        known = read(self._spark, self.table, old)
        return self.table.write(from_sql(self._spark, self.table.schema.name, batch=batch, known=known), number)


def _meets(file: DataFile, shelves: set[int]) -> bool:
    return any(file.overlaps("run", shelf * SHELF, (shelf + 1) * SHELF - 1) for shelf in shelves)
