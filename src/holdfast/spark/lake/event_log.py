"""Where a lake's events come from: the log of a store, or anything else that can give a frame for a range of positions.

A benchmark, or an import of another system's history, makes an `EventLog` of its own and gives it to `Lake`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from ...app.app import Holdfast
from ...store import shown
from ..read.table_reader import scan_of
from .frames import events_between


@dataclass(frozen=True)
class LogNews:
    """How far a log reaches beyond a position."""

    upto: str
    """Where the next batch may end."""
    is_reset: bool = False
    """The position is of another log than the one that is there now, so that reading begins anew."""


class EventLog(Protocol):
    """A log of events with positions. Between two positions lie the same events, however often they are read."""

    @property
    def name(self) -> str:
        """What messages call it; no secret is in it."""

    def news(self, after: str | None, most: int) -> LogNews | None:
        """Return where a batch of about `most` events after a position ends; `None` when there are none.

        Raise `ConfigError` for a position of another kind of log.
        """

    def frame(self, spark: SparkSession, after: str | None, upto: str) -> DataFrame:
        """Return the events after one position, up to and with another.

        They have the columns of the table `events` but for `batch` and `day`.
        """

    def missing(self, after: str | None) -> int:
        """Return how many events after a position were trimmed. Asked after reading, so that none is overlooked."""

    def hold(self, reader: str, upto: str) -> None:
        """Keep the events after a position for a reader of this name."""

    def now(self) -> datetime:
        """Return the time by the log's own clock."""


class StoreLog:
    """The event log of an app's store."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @property
    def name(self) -> str:
        """The store's URL, without its password."""
        return shown(self._app.store.url)

    def news(self, after: str | None, most: int) -> LogNews | None:
        """Return where a batch after a position ends; `None` when nothing has happened since."""
        page = self._app.sync(self._app.store.events(after, limit=1))
        if not page.events and not page.reset:
            return None
        with scan_of(self._app.store.url) as scan:
            return LogNews(scan.reach(after, most), page.reset)

    def frame(self, spark: SparkSession, after: str | None, upto: str) -> DataFrame:
        """Return the events between two positions, read by executors."""
        return events_between(spark, self._app.store.url, after, upto)

    def missing(self, after: str | None) -> int:
        """Return how many events after a position were trimmed."""
        return self._app.sync(self._app.store.events(after, limit=1)).gap

    def hold(self, reader: str, upto: str) -> None:
        """Have the store keep what the reader has not read."""
        self._app.sync(self._app.store.hold(reader, upto))

    def now(self) -> datetime:
        """Return the time by the store's clock."""
        return datetime.fromtimestamp(self._app.sync(self._app.store.now_ms()) / 1000, UTC)


def as_log(source: Holdfast | EventLog) -> EventLog:
    """Return an app's log, or the log itself."""
    return StoreLog(source) if isinstance(source, Holdfast) else source
