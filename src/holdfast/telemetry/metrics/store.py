"""The metrics of a store: depth, ages and lags, measured once for all its workers, and with none of them running.

What it costs does not grow with the jobs: the store's counters are read, and the answer is kept for some seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence

from ...core.state import State
from ...core.visible import visible
from ...store.contract import LogMeasure, QueueInfo, QueueMeasure, Store
from .exposition import exposition
from .table import (
    DEPTH,
    KEYS_AT_LIMIT,
    LOG_BYTES,
    LOG_EVENTS,
    OLDEST,
    OVERDUE,
    PAUSED,
    QUEUE_WORKERS,
    READER_DELAY,
    READER_LAG,
    STORE_MEASURED,
    STORE_UP,
    STORE_WORKERS,
)
from .tally import MOST_SETS, OTHER, Sample

log = logging.getLogger("holdfast")
KEPT = 5.0
"""Seconds for which a measure is given again before the store is asked anew."""
PATIENCE = 5.0
"""Seconds that the store has to answer: scrapers wait ten."""


class StoreMeter:
    """Measures one store, which must be open in the event loop that asks."""

    def __init__(self, store: Store, *, kept: float = KEPT, patience: float = PATIENCE) -> None:
        self._store = store
        self._kept, self._patience = kept, patience
        self._lock = asyncio.Lock()
        self._samples: list[Sample] = []
        self._measured_at = -kept
        self._is_up = True

    @property
    def latest(self) -> list[Sample]:
        """The samples of the latest measure; may be read from any thread."""
        return self._samples

    async def samples(self) -> list[Sample]:
        """Return the measures of the store; those of a moment ago, if there are any."""
        async with self._lock:
            if time.monotonic() - self._measured_at >= self._kept:
                self._samples = await self._measure()
                self._measured_at = time.monotonic()
        return self._samples

    async def _measure(self) -> list[Sample]:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                samples = await _samples(self._store)
        except Exception as error:
            if self._is_up:
                log.warning("store_unmeasured: %s", str(error) or f"no answer for {self._patience:g} s")
            self._is_up = False
            return [Sample(STORE_UP, (), 0)]
        self._is_up = True
        return [Sample(STORE_UP, (), 1), Sample(STORE_MEASURED, (), time.monotonic() - began), *samples]


class TwinMeter:
    """Measures a store from another event loop than the one where it is open, through a twin opened when asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._twin: Store | None = None
        self._meter: StoreMeter | None = None
        self._opening = asyncio.Lock()

    @property
    def latest(self) -> list[Sample]:
        """The samples of the latest measure; may be read from any thread."""
        return self._meter.latest if self._meter is not None else []

    async def samples(self) -> list[Sample]:
        """Return the measures of the store."""
        if self._meter is None:
            try:
                async with asyncio.timeout(PATIENCE), self._opening:
                    await self._open()
            except Exception as error:
                log.warning("store_unmeasured: %s", str(error) or f"no answer for {PATIENCE:g} s")
                return [Sample(STORE_UP, (), 0)]
        assert self._meter is not None
        return await self._meter.samples()

    async def _open(self) -> None:
        if self._meter is None:
            twin = self._store.twin()
            await twin.open()
            self._twin, self._meter = twin, StoreMeter(twin)

    async def close(self) -> None:
        """Close the twin."""
        if self._twin is not None:
            await self._twin.close()


async def store_metrics(meter: StoreMeter, *, open: bool = False) -> str:
    """Return the measures of a store as text for Prometheus; `open`: as OpenMetrics."""
    return exposition(await meter.samples(), open=open)


async def _samples(store: Store) -> list[Sample]:
    workers = sum(info.alive for info in await store.sessions())
    found = [Sample(STORE_WORKERS, (), workers)]
    measured = await store.measure()
    found += _of_queues([each.info for each in measured.queues], measured.now_ms)
    found += _of_measures(measured.queues)
    return [*found, *_of_log(measured.log)]


def _of_queues(queues: Sequence[QueueInfo], now: int) -> Iterator[Sample]:
    for info in queues[:MOST_SETS]:
        labels = (visible(info.name),)
        for state in State:
            yield Sample(DEPTH, (*labels, str(state)), info.counts.get(state, 0))
        oldest = info.oldest_waiting_ms
        yield Sample(OLDEST, labels, 0.0 if oldest is None else max(0, now - oldest) / 1000)
        yield Sample(PAUSED, labels, int(info.settings.paused))
        yield Sample(QUEUE_WORKERS, labels, info.workers)
    for state in State if len(queues) > MOST_SETS else ():
        yield Sample(DEPTH, (OTHER, str(state)), sum(info.counts.get(state, 0) for info in queues[MOST_SETS:]))


def _of_measures(queues: Sequence[QueueMeasure]) -> Iterator[Sample]:
    for each in queues[:MOST_SETS]:
        labels = (visible(each.info.name),)
        yield Sample(KEYS_AT_LIMIT, labels, each.keys_at_limit)
        yield Sample(OVERDUE, labels, each.scheduled_overdue_ms / 1000)


def _of_log(measured: LogMeasure) -> Iterator[Sample]:
    yield Sample(LOG_EVENTS, (), measured.events)
    if measured.bytes is not None:
        yield Sample(LOG_BYTES, (), measured.bytes)
    for reader, behind in list(measured.readers.items())[:MOST_SETS]:
        yield Sample(READER_LAG, (visible(reader),), behind)
        yield Sample(READER_DELAY, (visible(reader),), measured.lag_ms.get(reader, 0) / 1000)
