"""The batches of a lake. Each is a range of the event log, written down before its events are read."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from ...app.app import Holdfast
from ...errors import ConfigError, LakeBusy
from ...store import shown
from ...store.contract import EventPage
from ..read.table_reader import scan_of
from .delta_table import LakeTable, once_for, query
from .schemas import BATCHES, GAPS

log = logging.getLogger("holdfast.lake")
MOST = 4_000_000
"""The most events of a batch, so that a long history is read in pieces."""


@dataclass(frozen=True)
class LakeBatch:
    """One range of the log: the events after position `after`, up to and with `upto`."""

    batch: int
    reader: str
    after: str | None
    upto: str
    again: bool
    planned_at: datetime


class BatchLog:
    """The tables of batches and of gaps."""

    def __init__(self, lake: Path) -> None:
        self.batches = LakeTable(lake, BATCHES)
        self.gaps = LakeTable(lake, GAPS)

    def last(self) -> LakeBatch | None:
        """Return the newest batch that was planned, also when it was not finished."""
        self.batches.refresh()
        self.gaps.refresh()
        rows = query({"batches": self.batches}, "SELECT * FROM batches ORDER BY batch DESC LIMIT 1")
        return LakeBatch(**rows.to_pylist()[0]) if rows.num_rows else None

    def next(self, app: Holdfast, last: LakeBatch | None) -> LakeBatch | None:
        """Plan a batch with all events since the last one, and write it down; `None` when there are none."""
        after = last.upto if last else None
        page = self._news(app, after)
        if not page.events and not page.reset:
            return None
        with scan_of(app.store.url) as scan:
            end = scan.reach(after, MOST)
        now = datetime.fromtimestamp(app.sync(app.store.now_ms()) / 1000, UTC)
        number, reader = (last.batch + 1, last.reader) if last else (1, f"lake-{uuid.uuid4().hex[:12]}")
        batch = LakeBatch(number, reader, None if page.reset else after, end, page.reset, now)
        if page.reset:
            log.warning("log_reset: the log of %s is not what this lake has read: it was reset", shown(app.store.url))
            self.note_gap(batch, None, after)
        self._add(self.batches, asdict(batch), number)
        return batch

    def _news(self, app: Holdfast, after: str | None) -> EventPage:
        try:
            return app.sync(app.store.events(after, limit=1))
        except ConfigError as error:
            raise ConfigError(
                f"{self.batches.path.parent} is the lake of another store than {shown(app.store.url)}; "
                "give this store a folder of its own with --path"
            ) from error

    def note_gap(self, batch: LakeBatch, missing: int | None, after: str | None) -> None:
        """Write down, once, what is missing before this batch."""
        if self.gaps.batch < batch.batch:
            row = {"batch": batch.batch, "missing": missing, "after": after, "noticed_at": batch.planned_at}
            self._add(self.gaps, row, batch.batch)

    def _add(self, table: LakeTable, row: Mapping[str, object], batch: int) -> None:
        try:
            rows = pa.Table.from_pylist([dict(row)], table.schema.arrow)
            write_deltalake(table.delta, rows, mode="append", commit_properties=once_for(batch))
        except CommitFailedError as error:
            raise LakeBusy(
                f"{table.path.parent}: another lake run has just planned batch {batch}; one at a time is enough"
            ) from error
        table.refresh()
