"""`holdfast.spark.map`: Spark selects the rows, the queue makes the calls, and Spark gets the results back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...app.task import AnyTask
from ...core.duration import Duration, to_ms
from ...core.word import check_text
from ...errors import ConfigError, JobTimeout
from ..fleet.fleet import Fleet, fleet
from ..loop_thread import LoopThread
from ..store_url import reachable
from ..write.options import HOLD
from ..write.report import WriteReport
from ..write.run_ranges import OpenRuns
from ..write.write import FORMAT, save, tags_option, task_options
from .follow import RunFollower
from .result_type import spark_type

log = logging.getLogger("holdfast")
PAUSE = 0.25
ADDED = ("job_id", "state", "attempts", "result", "error")


def map(
    df: DataFrame,
    task: AnyTask,
    *,
    name: str,
    columns: Sequence[str] | None = None,
    hash_columns: Sequence[str] = (),
    run_at_column: str | None = None,
    priority_column: str | None = None,
    key_column: str | None = None,
    tags: Sequence[str] = (),
    tags_column: str | None = None,
    app: str | None = None,
    workers: int | None = None,
    slots: int = 10,
    hold: Duration = HOLD,
    timeout: Duration | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Return the DataFrame with the result of the task for each row, once every row has been through the queue.

    The same name again continues where it was: finished rows are not run again. `columns` are the arguments (default:
    all). Workers run elsewhere; or give `workers`, and so many run on this Spark until all rows are finished.
    """
    _refuse(df, task, name)
    aside = {
        "runAtColumn": run_at_column, "priorityColumn": priority_column, "keyColumn": key_column,
        "tagsColumn": tags_column,
    }  # fmt: skip
    given = {option: column for option, column in aside.items() if column is not None}
    tagged = tags_option(tags)
    arguments = columns if columns is not None else [each for each in df.columns if each not in given.values()]
    used = list(dict.fromkeys([*arguments, *given.values()]))
    marked = df.withColumn("job_id", _id(name, hash_columns or used))
    options = {
        **task_options(df.sparkSession, task, app), **given,
        "name": name, "idColumn": "job_id", "until": "hold", "hold": str(to_ms(hold, "hold") / 1000),
        **({"tags": tagged} if tagged else {}),
    }  # fmt: skip
    run = MapRun(df.sparkSession, name, {**options, "url": reachable(options["url"])}, workers, slots)
    run.run(marked.select("job_id", *used), task, None if timeout is None else to_ms(timeout, "timeout"), progress)
    return marked.join(run.results(task), "job_id", "left")


def _refuse(df: DataFrame, task: AnyTask, name: str) -> None:
    check_text(name, "name", "the name of a map")
    there = {name.lower() for name in df.columns}
    if taken := [added for added in ADDED if added in there]:
        raise ConfigError(f"map {name!r}: the column {taken[0]!r} would be there twice; rename yours first")
    if task.result_codec.name != "json":
        raise ConfigError(f"map {name!r}: the results of {task.name} are {task.result_codec.name}, and must be JSON")


def _id(name: str, columns: Sequence[str]) -> Column:
    """Return the id of a row: the name, and a hash of its columns."""
    return F.concat(
        F.lit(f"{name}:"), F.substring(F.sha2(F.to_json(F.struct(*columns), {"timeZone": "UTC"}), 256), 1, 32)
    )


@dataclass(frozen=True)
class MapRun:
    """One map: the options of its write, and the workers that it starts."""

    spark: SparkSession
    name: str
    options: dict[str, str]
    workers: int | None
    slots: int

    def run(self, rows: DataFrame, task: AnyTask, timeout_ms: int | None, progress: bool | None) -> None:
        """Enqueue a job for each row, and wait until all are finished."""
        from .progress_bar import progress_bar  # rich is needed on the driver alone

        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        with LoopThread(self.options["url"]) as loop:
            follower = RunFollower(loop, self.options["queue"])
            report = save(rows, self.options, task)
            log.info("spark_write: %s", report)
            if self.workers is None and report.open:
                _warn_of_no_worker(loop, self.options["queue"])
            with self._workers(report) as workers, progress_bar(self.name, report, progress) as show:
                left = OpenRuns(report.open)
                for count in follower.follow(left, lambda: time.sleep(PAUSE)):
                    show(count, follower.failed)
                    self._check(count, workers, deadline)

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

    def results(self, task: AnyTask) -> DataFrame:
        """Return one row of results for each id. Spark reads them from the store when they are asked for."""
        where = {"url": self.options["url"], "queue": self.options["queue"], "idPrefix": f"{self.name}:"}
        found = self.spark.read.format(FORMAT).options(table="results", **where).load()
        ended = F.coalesce("chain_state", "state").alias("state")  # the result is the chain's, and so is its end
        last = F.max_by(F.struct(ended, "attempts", "result", "error"), "run").alias("last")
        ours = found.groupBy(F.col("id").alias("job_id")).agg(last)
        typed = _typed(F.col("last.result"), task)
        return ours.select("job_id", "last.state", "last.attempts", typed.alias("result"), "last.error")


def _warn_of_no_worker(loop: LoopThread, queue: str) -> None:
    if not any(queue in each.session.queues for each in loop.run(loop.store.sessions()) if each.alive):
        log.warning(
            "no_worker: none serves the queue %r: start one (holdfast worker module:app), or give workers=2", queue
        )


def _typed(result: Column, task: AnyTask) -> Column:
    """Return the result in the type of the task's return annotation, else as JSON text."""
    text, kind = result.cast("string"), spark_type(task.signature.returns)
    if kind is None:
        return text
    wrapped = StructType([StructField("v", kind)])  # Spark reads no bare number or string as JSON
    return F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), wrapped)["v"]
