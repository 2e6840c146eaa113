"""The batches of a lake. Each is a range of the event log, written down before its events are read."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from ...errors import ConfigError, LakeBusy
from .delta_table import LakeTable, once_for, query
from .event_log import EventLog, LogNews
from .schemas import BATCHES, GAPS
from .storage.location import LakeLocation
from .storage.storage_errors import plain_storage_errors

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

    def __init__(self, lake: LakeLocation) -> None:
        self._lake = lake
        self.batches = LakeTable(lake, BATCHES)
        self.gaps = LakeTable(lake, GAPS)
        self._last: LakeBatch | None = None

    def last(self) -> LakeBatch | None:
        """Return the newest batch that was planned, also when it was not finished."""
        self.batches.refresh()
        self.gaps.refresh()
        if self._last is None or self._last.batch != self.batches.batch:
            newest = f"SELECT * FROM batches WHERE batch >= {self.batches.batch} ORDER BY batch DESC LIMIT 1"
            rows = query({"batches": self.batches}, newest)
            self._last = LakeBatch(**rows.to_pylist()[0]) if rows.num_rows else None
        return self._last

    def next(self, events: EventLog, last: LakeBatch | None, most: int = MOST) -> LakeBatch | None:
        """Plan a batch with all events since the last one, and write it down; `None` when there are none."""
        after = last.upto if last else None
        news = self._news(events, after, most)
        if news is None:
            return None
        number, reader = (last.batch + 1, last.reader) if last else (1, f"lake-{uuid.uuid4().hex[:12]}")
        batch = LakeBatch(number, reader, None if news.is_reset else after, news.upto, news.is_reset, events.now())
        if news.is_reset:
            log.warning(
                "log_reset: the log of %s is not what this lake has read: it was reset, or is that of another store; "
                "its events are taken in beside the others",
                events.name,
            )
            self.note_gap(batch, None, after)
        self._add(self.batches, asdict(batch), number)
        return batch

    def _news(self, events: EventLog, after: str | None, most: int) -> LogNews | None:
        try:
            return events.news(after, most)
        except ConfigError as error:
            raise ConfigError(
                f"{self._lake} is the lake of another store than {events.name}; "
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
            with plain_storage_errors(self._lake):
                write_deltalake(table.delta, rows, mode="append", commit_properties=once_for(batch))
        except CommitFailedError as error:
            raise LakeBusy(
                f"{self._lake}: another lake run has just planned batch {batch}; one at a time is enough"
            ) from error
        table.refresh()
