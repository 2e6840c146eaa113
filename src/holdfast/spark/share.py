"""A table in shares, each read by one task wherever Spark runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..core.state import FINISHED
from ..errors import LogGap
from ..store.scan import Condition, Part, Plan, Scan, lost, open_scan
from ..store.scan import Table as StoredTable
from ..store.shown import shown
from .arrow import batch, gap_row, stored_columns
from .option import ReadOptions, require_machine, this_machine
from .schema import Table

_OVER = Condition("state", "in", tuple(sorted(str(state) for state in FINISHED)))


class Share(InputPartition):
    """What one task reads, and the machine that planned it."""

    def __init__(self, plan: Plan, part: Part) -> None:
        self.plan = plan
        self.part = part
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
    """Return the store's table in which the rows are: results are finished jobs."""
    return "events" if table == "events" else "jobs"


def shares(options: ReadOptions, after: str | None, upto: str | None) -> list[Share]:
    """Return what is to be read, in shares. A gap that is known already is refused here, when it is to be."""
    plan = Plan(
        table=stored_table(options.table),
        columns=stored_columns(options.table),
        which=(*options.which, _OVER) if options.table == "results" else options.which,
        after=after,
        upto=upto,
        parts=options.partitions,
    )
    with scan_of(options.url) as scan:
        parts = scan.plan(plan)
    gap = next((part for part in parts if part.reset or part.missing), None)
    if gap is not None and options.on_gap == "fail":
        raise lost(shown(options.url), gap.missing or None)
    return [Share(plan, part) for part in parts]


def read(options: ReadOptions, share: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a share as batches; a gap raises, or is a row that says so."""
    if not isinstance(share, Share):
        return  # what Spark makes up for a table with no shares at all
    require_machine(options.url, share.machine)
    with scan_of(options.url) as scan:
        try:
            for columns in scan.read(share.plan, share.part):
                yield batch(options.table, columns)
        except LogGap as gap:
            if options.on_gap == "fail":
                raise
            yield gap_row(gap.missing)
