"""A lake whose batches come from the simulation instead of a store. All else is the lake's own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from holdfast import Holdfast
from holdfast.spark.lake import Lake
from holdfast.spark.lake.batches import LakeBatch
from holdfast.spark.lake.schemas import EVENTS

from .log import SimulatedLog
from .world import World


class SimulatedLake(Lake):
    """A lake of a simulated log. `grow` adds the next events to it."""

    def __init__(self, path: Path, spark: SparkSession, world: World) -> None:
        super().__init__(path, Holdfast("memory://"), spark)
        self._log = SimulatedLog(world)

    def grow(self, events: int) -> int:
        """Bring about so many further events into the lake as one batch; return how many there were."""
        self._log.wanted = events
        done = self.read_new()
        assert done is not None
        return done.events

    def _planned(self, last: LakeBatch | None) -> LakeBatch | None:
        if last is not None and self._gold[-1].batch < last.batch:
            return last
        number, after = (last.batch + 1, last.upto) if last else (1, None)
        batch = LakeBatch(number, "simulated", after, self._log.next_position(after), False, self._log.now())
        self._batches._add(self._batches.batches, asdict(batch), batch.batch)
        return batch

    def _new_events(self, batch: LakeBatch) -> DataFrame:
        frame = self._log.frame(self._spark, batch.after, batch.upto)
        return frame.selectExpr("*", f"{batch.batch}L AS batch", "CAST(at AS date) AS day").select(*EVENTS.names)

    def _note_gap(self, batch: LakeBatch) -> int:
        return self._log.missing(batch.after)

    def _keep_unread(self, batch: LakeBatch) -> None:
        self._log.hold(batch.reader, batch.upto)
