"""Where a lake's events come from: the log of a store, or anything else that can give a frame for a range of positions.

A benchmark, or an import of another system's history, makes an `EventLog` of its own and gives it to `Lake`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession

from ...app.app import Holdfast
from ...store import shown
from ..read.options import ReadOptions
from ..read.table_reader import ScanPartition, plan_partitions, read_partition, scan_of
from ..store_url import reachable
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


@dataclass(frozen=True)
class LogShares:
    """Events in shares, which tasks read straight into Arrow: no row crosses to Java and back."""

    options: ReadOptions
    partitions: Sequence[ScanPartition]

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the events of one share."""
        for batch in read_partition(self.options, self.partitions[number]):
            yield batch.filter(pa.compute.not_equal(batch["transition"], "gap"))


@runtime_checkable
class SharedLog(Protocol):
    """A log that tasks can read by themselves."""

    def shares(self, spark: SparkSession, after: str | None, upto: str) -> LogShares:
        """Return the events that `frame` would have."""


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

    def shares(self, spark: SparkSession, after: str | None, upto: str) -> LogShares:
        """Return the same events in shares, as many as Spark runs tasks at once."""
        cores = max(2, spark.sparkContext.defaultParallelism)
        url = reachable(self._app.store.url)
        options = ReadOptions(url=url, after=after, upto=upto, partitions=cores, fail_on_data_loss=False)
        return LogShares(options, plan_partitions(options, after, upto))

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
