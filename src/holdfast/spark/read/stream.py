"""The event log as a stream. An offset is a position: the events between two positions never change.

So a repeated batch has the same rows, and nothing depends on what Spark says was committed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...store.scan import Scan
from .options import ReadOptions
from .table_reader import ScanPartition, plan_partitions, read_partition, scan_of

Offset = dict[str, str]


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read events as they are written."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._target: str | None = None

    def initialOffset(self) -> Offset:
        """Return the beginning of the log, or the position that the options name."""
        after = self.options.after
        with scan_of(self.options.url) as scan:
            if after == "end":
                return _offset(self._end(scan))
            return _offset(after if after is not None else scan.reach(None, 0, self.options.which))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many rows a micro-batch may have."""
        return ReadMaxRows(self.options.limit) if self.options.limit else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return how far the next micro-batch reaches."""
        with scan_of(self.options.url) as scan:
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return _offset(scan.reach(start["position"], rows, self.options.which, self._target))

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the end of the log as it is now."""
        with scan_of(self.options.url) as scan:
            self._target = self._end(scan)

    def reportLatestOffset(self) -> Offset:
        """Return the end of the log."""
        with scan_of(self.options.url) as scan:
            return _offset(self._end(scan))

    def _end(self, scan: Scan) -> str:
        return scan.end(self.options.queues)

    def partitions(self, start: Offset, end: Offset) -> list[ScanPartition]:
        """Return the events between two offsets, in partitions."""
        return plan_partitions(self.options, start["position"], end["position"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        return read_partition(self.options, partition)


def _offset(position: str) -> Offset:
    return {"position": position}
