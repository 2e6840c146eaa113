"""The tally: counters and buckets in plain lists, which cost a fraction of a microsecond a job.

Written by the event loops of workers and producers, read by whoever shows it, from any thread: a reader copies.
Label sets are bounded: past `MOST_SETS` of a metric, what is new is counted as `other`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ...core.visible import visible
from .table import Metric

MOST_SETS = 1000
"""Label sets of one metric at most."""
OTHER = "other"


class Distribution(NamedTuple):
    """A histogram as it stands: how many values each bucket has, the last without an upper bound; and their sum."""

    counts: tuple[int, ...]
    sum: float


class Sample(NamedTuple):
    """One number, or one distribution, of a metric."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution


class Histogram:
    """Counts of values by bucket."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add_all(self, values: list[float]) -> None:
        """Count many values, which are sorted here: it costs a fraction of counting each."""
        values.sort()
        self.sum += sum(values)
        before = 0
        for bucket, bound in enumerate(self.bounds):
            upto = bisect_right(values, bound, before)
            self.counts[bucket] += upto - before
            if (before := upto) == len(values):
                return
        self.counts[-1] += len(values) - before


class Cell:
    """One number that grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


Source = Callable[[], Iterable[Sample]]


class MetricTally:
    """All counters and histograms of a process, and what can be asked of it at the moment."""

    def __init__(self, most_sets: int = MOST_SETS) -> None:
        self._most = most_sets
        self._cells: dict[Metric, dict[tuple[str, ...], Cell]] = {}
        self._histograms: dict[Metric, dict[tuple[str, ...], Histogram]] = {}
        self.sources: list[Source] = []
        """What is asked for gauges whenever somebody looks."""

    def cell(self, metric: Metric, *labels: str) -> Cell:
        """Return the counter of these labels; keep it rather than ask again."""
        cells = self._cells.setdefault(metric, {})
        key = self._key(metric, labels, cells)
        if (found := cells.get(key)) is None:
            found = cells[key] = Cell()
        return found

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """Return the histogram of these labels; keep it rather than ask again."""
        known = self._histograms.setdefault(metric, {})
        key = self._key(metric, labels, known)
        if (found := known.get(key)) is None:
            found = known[key] = Histogram(metric.bounds)
        return found

    def _key(self, metric: Metric, labels: tuple[str, ...], known: Mapping[tuple[str, ...], object]) -> tuple[str, ...]:
        """Return the labels as people may see them, or `other` where there are too many already."""
        assert len(labels) == len(metric.labels), metric.name
        key = tuple(map(visible, labels))
        if key in known or len(known) < self._most:
            return key
        return (OTHER,) * len(labels)

    def samples(self) -> Iterator[Sample]:
        """Yield everything as it stands."""
        for metric, cells in list(self._cells.items()):
            for labels, cell in list(cells.items()):
                yield Sample(metric, labels, cell.value)
        for metric, known in list(self._histograms.items()):
            for labels, histogram in list(known.items()):
                yield Sample(metric, labels, Distribution(tuple(histogram.counts), histogram.sum))
        for source in list(self.sources):
            yield from source()

    def clear(self) -> None:
        """Forget everything, for tests."""
        self._cells.clear()
        self._histograms.clear()
