"""`holdfast.spark.map`: Spark selects the rows, the queue makes the calls, and Spark gets the results back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict, Unpack, overload

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...app.task import AnyTask
from ...core.duration import Duration, to_ms
from ...core.word import check_text
from ...errors import ConfigError
from ..session.master import local_cores
from ..store_url import reachable
from ..write.options import HOLD
from ..write.write import tags_option, task_options
from .results import MapResults
from .run import MapRun

ADDED = ("job_id", "state", "attempts", "result", "error")


class MapOptions(TypedDict, total=False):
    """The options of `map`, for its two signatures."""

    columns: Sequence[str] | None
    hash_columns: Sequence[str]
    run_at_column: str | None
    priority_column: str | None
    key_column: str | None
    tags: Sequence[str]
    tags_column: str | None
    app: str | None
    workers: int | None
    slots: int
    hold: Duration
    timeout: Duration | None
    progress: bool | None


@overload
def map(
    df: DataFrame, task: AnyTask, *, name: str, stream: Literal[False] = False, **options: Unpack[MapOptions]
) -> DataFrame: ...


@overload
def map(
    df: DataFrame, task: AnyTask, *, name: str, stream: Literal[True], **options: Unpack[MapOptions]
) -> Iterator[DataFrame]: ...


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
    stream: bool = False,
) -> DataFrame | Iterator[DataFrame]:
    """Return the DataFrame with the result of the task for each row, once every row has been through the queue.

    The same name again continues where it was: finished rows are not run again. `columns` are the arguments (default:
    all). Workers run elsewhere; or give `workers`, and so many run on this Spark until all rows are finished. With
    `stream`, yield DataFrames as results come, each with the rows that were finished since the one before.
    """
    _refuse(df, task, name)
    if stream:
        _leave_a_core(df.sparkSession, name, workers)
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
    options = {**options, "url": reachable(options["url"])}
    limit_ms = None if timeout is None else to_ms(timeout, "timeout")
    run = MapRun(df.sparkSession, options, task, workers, slots, limit_ms, progress)
    rows, results = marked.select("job_id", *used), MapResults(df.sparkSession, options, task)
    if stream:
        return (marked.join(results.of(runs), "job_id") for runs in run.finished(rows))
    run.wait(rows)
    return marked.join(results.whole(), "job_id", "left")


def _refuse(df: DataFrame, task: AnyTask, name: str) -> None:
    check_text(name, "name", "the name of a map")
    there = {name.lower() for name in df.columns}
    if taken := [added for added in ADDED if added in there]:
        raise ConfigError(f"map {name!r}: the column {taken[0]!r} would be there twice; rename yours first")
    if task.result_codec.name != "json":
        raise ConfigError(f"map {name!r}: the results of {task.name} are {task.result_codec.name}, and must be JSON")


def _leave_a_core(spark: SparkSession, name: str, workers: int | None) -> None:
    """Raise when workers would take every core: who reads what comes would wait for a core, and they for the reader."""
    cores = local_cores(spark.sparkContext.master)
    if workers is None or cores is None or workers < cores:
        return
    raise ConfigError(
        f"map {name!r}: workers={workers} would take all {cores} cores of this Spark while results come, and none "
        "would be left to read them; give fewer, or more cores (local[N]), or start the workers elsewhere"
    )


def _id(name: str, columns: Sequence[str]) -> Column:
    """Return the id of a row: the name, and a hash of its columns."""
    return F.concat(
        F.lit(f"{name}:"), F.substring(F.sha2(F.to_json(F.struct(*columns), {"timeZone": "UTC"}), 256), 1, 32)
    )
