"""The simulated log: positions are times, and a batch's events are made by Spark's tasks when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.spark.lake import Lake, LogNews

from .columns import batches_between, schema
from .world import World

SLICE = 250_000
"""About so many events are made by one Spark task."""


class SimulatedLog:
    """A log that has no end: whoever asks for more events gets them."""

    name = "the simulation"

    def __init__(self, world: World) -> None:
        self.world = world

    def news(self, after: str | None, most: int) -> LogNews:
        """Return where a batch of so many events ends, about."""
        return LogNews(str(self._time(after) + self.world.window_ms(most)))

    def frame(self, spark: SparkSession, after: str | None, upto: str) -> DataFrame:
        """Return the events after one position, up to and with another. Each task makes a part of that time."""
        world, first, last = self.world, self._time(after), int(upto)
        slices = max(1, round((last - first) / world.window_ms(SLICE)))
        edges = [first + (last - first) * number // slices for number in range(slices + 1)]

        def made(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    yield from batches_between(world, edges[number], edges[number + 1])

        return spark.range(0, slices, 1, slices).mapInArrow(made, from_arrow_schema(schema()))

    def missing(self, after: str | None) -> int:
        """Nothing is ever trimmed."""
        return 0

    def hold(self, reader: str, upto: str) -> None:
        """Nothing has to be kept."""

    def now(self) -> datetime:
        """Return a time, the same in every run."""
        return datetime.fromtimestamp(self.world.start_ms / 1000, UTC)

    def _time(self, position: str | None) -> int:
        return self.world.start_ms if position is None else int(position)


def grow(path: Path, spark: SparkSession, world: World, events: int) -> int:
    """Open a lake and bring about so many further events into it as one batch; return how many there were."""
    done = Lake(path, SimulatedLog(world), spark, most=events).read_new()
    assert done is not None
    return done.events
