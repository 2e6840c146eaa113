"""One map at work: its rows are enqueued, its workers run, and its runs are waited for."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ...app.task import AnyTask
from ...errors import ConfigError, JobTimeout
from ..fleet.fleet import Fleet, fleet
from ..loop_thread import LoopThread
from ..write.report import WriteReport
from ..write.run_ranges import OpenRuns, RunRange, without_ranges
from ..write.write import save
from .follow import RunFollower, open_chains

log = logging.getLogger("holdfast")
PAUSE = 0.25
LEAST_BATCH_SECONDS = 1.0
"""Between two batches of a stream: each costs Spark a reading of the rows."""


@dataclass(frozen=True)
class MapRun:
    """One map: the options of its write, and the workers that it starts."""

    spark: SparkSession
    options: dict[str, str]
    task: AnyTask
    workers: int | None
    slots: int
    timeout_ms: int | None
    progress: bool | None

    @property
    def name(self) -> str:
        """The name of the map."""
        return self.options["name"]

    def wait(self, rows: DataFrame) -> None:
        """Enqueue a job for each row, and wait until all are finished."""
        for _ in self._steps(rows):
            pass

    def finished(self, rows: DataFrame) -> Iterator[list[RunRange]]:
        """Enqueue a job for each row, and yield the runs that are finished as they come, each of them once."""
        given = 0.0
        for step in self._steps(rows):
            if step.report is not None:
                before = without_ranges(step.report.runs, step.report.open)
                if before:
                    yield before
                continue
            if step.is_last or time.monotonic() - given >= LEAST_BATCH_SECONDS:
                runs = step.take()
                if runs:
                    yield runs
                    given = time.monotonic()

    def _steps(self, rows: DataFrame) -> Iterator[MapStep]:
        """Yield after each look at what is left; at first, once all rows are enqueued."""
        from .progress_bar import progress_bar  # rich is needed on the driver alone

        deadline = None if self.timeout_ms is None else time.monotonic() + self.timeout_ms / 1000
        with LoopThread(self.options["url"]) as loop:
            follower = RunFollower(loop, self.options["queue"])
            report = save(rows, self.options, self.task)
            log.info("spark_write: %s", report)
            left = OpenRuns(report.open)
            yield MapStep(loop, self.options["queue"], left, report=report)
            if self.workers is None and report.open:
                _warn_of_no_worker(loop, self.options["queue"])
            with self._workers(report) as workers, progress_bar(self.name, report, self.progress) as show:
                for count in follower.follow(left, lambda: time.sleep(PAUSE)):
                    show(count, follower.failed)
                    self._check(count, workers, deadline)
                    yield MapStep(loop, self.options["queue"], left)
            yield MapStep(loop, self.options["queue"], left, is_last=True)

    @contextlib.contextmanager
    def _workers(self, report: WriteReport) -> Iterator[Fleet | None]:
        """Run workers on this Spark while the block lasts, if they are wanted and a row is open."""
        if self.workers is None or not report.open:
            yield None
            return
        if "app" not in self.options:
            raise ConfigError(
                f"workers={self.workers}: executors cannot import an app that a script or a notebook makes; "
                "put it in a module, or start workers elsewhere"
            )
        app, queues = self.options["app"], [self.options["queue"]]
        with fleet(app, spark=self.spark, queues=queues, workers=self.workers, slots=self.slots) as workers:
            yield workers

    def _check(self, left: int, workers: Fleet | None, deadline: float | None) -> None:
        """Raise when the time is over, or when the workers have ended, and rows are left."""
        if workers is not None and left and not workers.running:
            workers.stop()  # raises what its workers reported
            raise ConfigError(f"map {self.name!r}: its workers have ended, and {left} rows are left; call it again")
        if deadline is not None and left and time.monotonic() > deadline:
            raise JobTimeout(
                f"map {self.name!r}: {left} rows were not done in time; they go on, and the same map finds them",
                queue=self.options["queue"], job_id=self.name,
            )  # fmt: skip


@dataclass(frozen=True)
class MapStep:
    """Where a map stands."""

    loop: LoopThread
    queue: str
    left: OpenRuns
    report: WriteReport | None = None
    """What became of the rows when they were enqueued: of the first step alone."""
    is_last: bool = False

    def take(self) -> list[RunRange]:
        """Return the runs that are finished, their chains with them, and that were not taken before."""
        return self.left.take_finished(self.loop.run(open_chains(self.loop.store, self.queue, self.left)))


def _warn_of_no_worker(loop: LoopThread, queue: str) -> None:
    if not any(queue in each.session.queues for each in loop.run(loop.store.sessions()) if each.alive):
        log.warning(
            "no_worker: none serves the queue %r: start one (holdfast worker module:app), or give workers=2", queue
        )
