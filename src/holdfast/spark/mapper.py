"""`holdfast.spark.map`: Spark selects the rows, the queue makes the calls, and Spark gets the results back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..core.duration import Duration, to_ms
from ..errors import ConfigError, JobTimeout
from ..option import check_text
from ..task import Task
from .fleet import Fleet, fleet
from .line import Line
from .option import reachable
from .order import HOLD
from .report import WriteReport
from .runs import Outstanding
from .shape import spark_type
from .wait import Watch
from .write import FORMAT, save, task_options

log = logging.getLogger("holdfast")
PAUSE = 0.25
ADDED = ("job_id", "state", "attempts", "result", "error")


def map(
    df: DataFrame,
    task: Task[Any, Any],
    *,
    name: str,
    columns: Sequence[str] | None = None,
    hash_columns: Sequence[str] = (),
    run_at_column: str | None = None,
    priority_column: str | None = None,
    key_column: str | None = None,
    app: str | None = None,
    workers: int | None = None,
    slots: int = 10,
    hold: Duration = HOLD,
    timeout: Duration | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Return the DataFrame with the result of the task for each row, once every row has been through the queue.

    The same name again goes on where it was: rows that are done are not done again. `columns` are the arguments
    (default: all); workers run elsewhere, or `workers` of them on this Spark until all is done.
    """
    _refuse(df, task, name)
    aside = {"runAtColumn": run_at_column, "priorityColumn": priority_column, "keyColumn": key_column}
    given = {option: column for option, column in aside.items() if column is not None}
    arguments = columns if columns is not None else [each for each in df.columns if each not in given.values()]
    used = list(dict.fromkeys([*arguments, *given.values()]))
    marked = df.withColumn("job_id", _id(name, hash_columns or used))
    options = {
        **task_options(df.sparkSession, task, app), **given,
        "name": name, "idColumn": "job_id", "until": "hold", "hold": str(to_ms(hold, "hold") / 1000),
    }  # fmt: skip
    errand = Errand(df.sparkSession, name, {**options, "url": reachable(options["url"])}, workers, slots)
    errand.run(marked.select("job_id", *used), task, None if timeout is None else to_ms(timeout, "timeout"), progress)
    return marked.join(errand.results(task), "job_id", "left")


def _refuse(df: DataFrame, task: Task[Any, Any], name: str) -> None:
    check_text(name, "name", "the name of a map")
    there = {name.lower() for name in df.columns}
    if taken := [added for added in ADDED if added in there]:
        raise ConfigError(f"map {name!r}: the column {taken[0]!r} would be there twice; rename yours first")
    if task.result_codec.name != "json":
        raise ConfigError(f"map {name!r}: the results of {task.name} are {task.result_codec.name}, and must be JSON")


def _id(name: str, columns: Sequence[str]) -> Column:
    """The id of a row: the name, and what its columns say."""
    return F.concat(
        F.lit(f"{name}:"), F.substring(F.sha2(F.to_json(F.struct(*columns), {"timeZone": "UTC"}), 256), 1, 32)
    )


@dataclass(frozen=True)
class Errand:
    """One map: where its jobs are, and who runs them."""

    spark: SparkSession
    name: str
    options: dict[str, str]
    workers: int | None
    slots: int

    def run(self, rows: DataFrame, task: Task[Any, Any], timeout_ms: int | None, progress: bool | None) -> None:
        """Every row is a job, and every job is over."""
        from .bar import bar  # rich is needed on the driver alone

        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        with Line(self.options["url"]) as line:
            watch = Watch(line, self.options["queue"])
            report = save(rows, self.options, task)
            log.info("%s", report)
            if self.workers is None and report.open:
                _warn_of_nobody(line, self.options["queue"])
            with self._crew(report) as crew, bar(self.name, report, progress) as show:
                left = Outstanding(report.open)
                for count in watch.follow(left, lambda: time.sleep(PAUSE)):
                    show(count, watch.failed)
                    self._check(watch, count, crew, deadline)

    @contextlib.contextmanager
    def _crew(self, report: WriteReport) -> Iterator[Fleet | None]:
        """Workers run on this Spark while the block lasts, if they are wanted and there is something to do."""
        if self.workers is None or not report.open:
            yield None
            return
        if "app" not in self.options:
            raise ConfigError(
                f"workers={self.workers}: executors cannot import an app that a script or a notebook makes; "
                "put it in a module, or start workers elsewhere"
            )
        app, queues = self.options["app"], [self.options["queue"]]
        with fleet(app, spark=self.spark, queues=queues, workers=self.workers, slots=self.slots) as crew:
            yield crew

    def _check(self, watch: Watch, left: int, crew: Fleet | None, deadline: float | None) -> None:
        """Raise when what is left will not be done: in time, or by workers that could not even start."""
        if crew is not None and left and not crew.running:
            crew.stop()  # which raises what its workers told
            raise ConfigError(f"map {self.name!r}: its workers have ended, and {left} rows are left; call it again")
        if deadline is not None and left and time.monotonic() > deadline:
            raise JobTimeout(
                f"map {self.name!r}: {left} rows were not done in time; they go on, and the same map finds them",
                queue=watch.queue, job_id=self.name,
            )  # fmt: skip

    def results(self, task: Task[Any, Any]) -> DataFrame:
        """Return what the runs left, one row for each id; read from the store in ranges, when it is asked for."""
        where = {"url": self.options["url"], "queue": self.options["queue"], "idPrefix": f"{self.name}:"}
        found = self.spark.read.format(FORMAT).options(table="results", **where).load()
        ended = F.coalesce("chain_state", "state").alias("state")  # the result is the chain's, and so is its end
        last = F.max_by(F.struct(ended, "attempts", "result", "error"), "run").alias("last")
        ours = found.groupBy(F.col("id").alias("job_id")).agg(last)
        typed = _typed(F.col("last.result"), task)
        return ours.select("job_id", "last.state", "last.attempts", typed.alias("result"), "last.error")


def _warn_of_nobody(line: Line, queue: str) -> None:
    if not any(queue in each.session.queues for each in line(line.store.sessions()) if each.alive):
        log.warning("no worker serves the queue %r: start one (holdfast worker module:app), or give workers=2", queue)


def _typed(result: Column, task: Task[Any, Any]) -> Column:
    """The result as the task's return annotation says, else as JSON."""
    text, kind = result.cast("string"), spark_type(task.signature.returns)
    if kind is None:
        return text
    wrapped = StructType([StructField("v", kind)])  # Spark reads no bare number or string as JSON
    return F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), wrapped)["v"]
