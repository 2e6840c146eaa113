"""Silver: one row for each attempt and each run, brought up to date by the events of a batch.

A row is open until its attempt or run is over, and final afterwards. Open rows are kept by shelves of runs (see the
SQL); a batch rewrites the shelves that it touches and appends what has become final. So its cost follows the new
events. A final row changes only when an event of it comes late: then its file is found by its range of runs. A row
whose first event is not known, because it comes late or was trimmed, is told by the column that is null.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from .frame import made, read
from .table import File, Table

SHELF = 16384
"""How many runs share a shelf: as in the SQL."""


FEW = 16


def shelves(batch: DataFrame, files: Sequence[File]) -> set[int]:
    """Return the shelves of the runs that a batch tells of, or few more."""
    low, high = (end // SHELF for end in (min(f.lowest["run"] for f in files), max(f.highest["run"] for f in files)))
    if high - low < FEW:
        return set(range(low, high + 1))
    return {row[0] for row in batch.selectExpr(f"run div {SHELF} AS shelf").distinct().collect()}


class Silver:
    """One silver table, and the column that every whole row has."""

    def __init__(self, spark: SparkSession, table: Table, born: str) -> None:
        self._spark = spark
        self.table = table
        self._born = born

    def write(self, batch: DataFrame, number: int, touched: set[int]) -> tuple[list[File], list[File]]:
        """Return files with the rows as the batch leaves them, and the files that these replace."""
        names = {str(shelf) for shelf in touched}
        final = self.table.files(lambda file: file.partition["shelf"] is None and _meets(file, touched))
        old = self.table.files(lambda file: file.partition["shelf"] in names)
        old += [file for file in final if self._unborn(file)]  # their beginning may come now
        new = self._fold(batch, number, old)
        late = [file for file in final if file not in old]
        if late and any(map(self._unborn, new)):
            # Something is told of a run whose beginning is not known: it is final already, or its log was trimmed.
            self.table.drop(new)
            old += late
            new = self._fold(batch, number, old)
        return new, old

    def _unborn(self, file: File) -> bool:
        return bool(file.nulls.get(self._born))

    def _fold(self, batch: DataFrame, number: int, old: Sequence[File]) -> list[File]:
        known = read(self._spark, self.table, old)
        return self.table.write(made(self._spark, self.table.shape.name, batch=batch, known=known), number)


def _meets(file: File, shelves: set[int]) -> bool:
    return any(file.overlaps("run", shelf * SHELF, (shelf + 1) * SHELF - 1) for shelf in shelves)
