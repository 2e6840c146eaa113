"""Which events a batch has: decided, and written down, before they are read."""

from __future__ import annotations

import logging
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from ...app import Holdfast
from ...errors import ConfigError, LakeBusy
from ...store import shown
from ...store.contract import EventPage
from ..share import scan_of
from .query import query
from .schema import BATCHES, GAPS
from .table import Table, once

log = logging.getLogger("holdfast.lake")
MOST = 4_000_000
"""A batch has at most so many events, so that a long history is read in pieces."""


@dataclass(frozen=True)
class Batch:
    """One range of the log: what is behind `after`, up to and with `upto`."""

    batch: int
    reader: str
    after: str | None
    upto: str
    again: bool
    planned_at: datetime


class Plan:
    """The table of batches, and that of gaps."""

    def __init__(self, lake: Path) -> None:
        self.batches = Table(lake, BATCHES)
        self.gaps = Table(lake, GAPS)

    def last(self) -> Batch | None:
        """Return the newest batch that was planned, whether it was done or not."""
        self.batches.refresh()
        self.gaps.refresh()
        rows = query({"batches": self.batches}, "SELECT * FROM batches ORDER BY batch DESC LIMIT 1")
        return Batch(**rows.to_pylist()[0]) if rows.num_rows else None

    def next(self, app: Holdfast, last: Batch | None) -> Batch | None:
        """Return a new batch with all that has happened since the last, written down; `None` when nothing has."""
        after = last.upto if last else None
        page = self._news(app, after)
        if not page.events and not page.reset:
            return None
        with scan_of(app.store.url) as scan:
            end = scan.reach(after, MOST)
        now = datetime.fromtimestamp(app.sync(app.store.now_ms()) / 1000, UTC)
        number, reader = (last.batch + 1, last.reader) if last else (1, f"lake-{uuid.uuid4().hex[:12]}")
        batch = Batch(number, reader, None if page.reset else after, end, page.reset, now)
        if page.reset:
            log.warning("the log of %s is not the one that this lake has read: it was reset", shown(app.store.url))
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

    def note_gap(self, batch: Batch, missing: int | None, after: str | None) -> None:
        """What is missing before this batch is written down, once."""
        if self.gaps.batch < batch.batch:
            row = {"batch": batch.batch, "missing": missing, "after": after, "noticed_at": batch.planned_at}
            self._add(self.gaps, row, batch.batch)

    def _add(self, table: Table, row: dict[str, Any], batch: int) -> None:
        try:
            rows = pa.Table.from_pylist([row], table.shape.arrow)
            write_deltalake(table.delta, rows, mode="append", commit_properties=once(batch))
        except CommitFailedError as error:
            raise LakeBusy(
                f"{table.path.parent}: another lake run has just planned batch {batch}; one at a time is enough"
            ) from error
        table.refresh()
