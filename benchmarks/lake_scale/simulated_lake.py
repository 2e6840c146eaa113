"""A lake whose batches come from the simulation instead of a store. All else is the lake's own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.spark.lake import Lake

from .log import SimulatedLog
from .world import World


class SimulatedLake(Lake):
    """A lake of a simulated log. `grow` adds the next events to it."""

    def __init__(self, path: Path, spark: SparkSession, world: World) -> None:
        self._simulated = SimulatedLog(world)
        super().__init__(path, self._simulated, spark)

    def grow(self, events: int) -> int:
        """Bring about so many further events into the lake as one batch; return how many there were."""
        self._simulated.wanted = events
        done = self.read_new()
        assert done is not None
        return done.events
