"""A table in partitions, each read by one Spark task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...core.state import FINISHED
from ...errors import LogGap
from ...store.scan import Condition, Scan, ScanPart, ScanPlan, lost, open_scan
from ...store.scan import Table as StoredTable
from ...store.shown import shown
from ..store_url import require_machine, this_machine
from .arrow import batch, gap_row, stored_columns
from .broken_pipe import expect_broken_pipes
from .options import ReadOptions
from .tables import Table

_FINISHED = Condition("state", "in", tuple(sorted(str(state) for state in FINISHED)))


class TableReader(DataSourceReader):
    """Read a table in partitions.

    It takes no filters: Spark 4.3 keeps one reader for each loaded frame, so that the filters of a frame's first use
    would hold for every other. The store applies the options; Spark applies all other conditions.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> list[ScanPartition]:
        """Return the partitions."""
        return plan_partitions(self.options, self.options.after, self.options.upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        return read_partition(self.options, partition)


class ScanPartition(InputPartition):
    """What one task reads, and the machine that planned it."""

    def __init__(self, plan: ScanPlan, part: ScanPart | None, *, is_anchored: bool) -> None:
        self.plan = plan
        self.part = part
        """`None`: all that the plan finds when it is read."""
        self.is_anchored = is_anchored
        """Whether somebody has read up to the beginning, so that events which are gone are a gap."""
        self.machine = this_machine()


@contextmanager
def scan_of(url: str) -> Iterator[Scan]:
    """Yield a scan that is closed at the end of the block."""
    scan = open_scan(url)
    try:
        yield scan
    finally:
        scan.close()


def stored_table(table: Table) -> StoredTable:
    """Return the store's table that has the rows: results are finished jobs."""
    return "events" if table == "events" else "jobs"


def plan_partitions(options: ReadOptions, after: str | None, upto: str | None) -> list[ScanPartition]:
    """Return what is to be read, in partitions. Raise for a gap that is known already, where options say so."""
    plan = ScanPlan(
        table=stored_table(options.table),
        columns=stored_columns(options.table, options.columns),
        which=(*options.which, _FINISHED) if options.table == "results" else options.which,
        after=after,
        upto=upto,
        parts=options.partitions,
    )
    with scan_of(options.url) as scan:
        later = _later(scan, plan, options) if options.table == "events" and upto is None else None
        if later is not None:
            plan = msgspec.structs.replace(plan, upto=later.after)
        parts = scan.plan(plan)
    gap = next((part for part in parts if part.reset or part.missing), None)
    if gap is not None and options.fail_on_data_loss:
        raise lost(shown(options.url), gap.missing or None)
    anchored = after is not None
    planned = [ScanPartition(plan, part, is_anchored=anchored) for part in parts]
    return planned if later is None else [*planned, ScanPartition(later, None, is_anchored=anchored)]


def _later(scan: Scan, plan: ScanPlan, options: ReadOptions) -> ScanPlan:
    """Return the events that are yet to come.

    Spark keeps the partitions of a frame for all its actions. So that each sees the log as it is then, one task reads
    on from where the others end, to an end that it looks up itself; what all of them read is the log up to there.
    """
    return msgspec.structs.replace(plan, after=scan.end(options.queues), parts=1)


def read_partition(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition as batches. A gap raises, or is a row of its own."""
    if not isinstance(partition, ScanPartition):
        return  # what Spark makes up for a table without partitions
    require_machine(options.url, partition.machine)
    expect_broken_pipes()
    with scan_of(options.url) as scan:
        parts = [partition.part] if partition.part is not None else scan.plan(partition.plan)
        for part in parts:
            yield from _rows_of(scan, options, partition, part)


def _rows_of(scan: Scan, options: ReadOptions, partition: ScanPartition, part: ScanPart) -> Iterator[pa.RecordBatch]:
    try:
        for columns in scan.read(partition.plan, part):
            yield batch(options.table, columns, options.columns)
    except LogGap as gap:
        if gap.missing is not None and not partition.is_anchored:
            return  # nobody was promised the beginning of the log
        if options.fail_on_data_loss:
            raise
        yield gap_row(gap.missing, options.columns)
