"""`holdfast.spark.write`: enqueue a job for each row of a DataFrame, and report what became of the rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...app.task import AnyTask, Task
from ...core.duration import Duration, to_ms
from ...core.envelope import check_tags
from ...errors import ConfigError
from ...telemetry import traces
from ...telemetry.traces.w3c import PARENT
from ..app_code import folder_of, import_path_of, send_app
from ..errors import own_errors
from ..loop_thread import LoopThread
from ..session.kept_cores import refuse_without_core
from ..session.master import refuse_connect
from ..store_url import reachable, refuse_remote
from .check import check_columns, checked
from .options import HOLD, WriteOptions, parse_options
from .report import WriteReport, find_report

log = logging.getLogger("holdfast")
FORMAT = "holdfast"


def write(
    df: DataFrame,
    task: AnyTask | str,
    *,
    name: str | None = None,
    app: str | None = None,
    url: str | None = None,
    queue: str | None = None,
    id_column: str | None = None,
    run_at_column: str | None = None,
    priority_column: str | None = None,
    key_column: str | None = None,
    tags: Sequence[str] = (),
    tags_column: str | None = None,
    hash_columns: Sequence[str] = (),
    hold: Duration = HOLD,
) -> WriteReport:
    """Enqueue a job for each row and return a report. The same name again enqueues nothing twice.

    `task` is a task, or the name of one: then `app="module:app"`, or `url` and `queue`, say where it is.
    """
    columns = {
        "idColumn": id_column, "runAtColumn": run_at_column, "priorityColumn": priority_column,
        "keyColumn": key_column, "tagsColumn": tags_column, "hashColumns": ",".join(hash_columns) or None,
        "tags": tags_option(tags),
    }  # fmt: skip
    options = {
        "name": f"write-{uuid4().hex[:16]}" if name is None else name, "app": app, "url": url, "queue": queue,
        "hold": str(to_ms(hold, "hold") / 1000), **columns,
    }  # fmt: skip
    given = {option: value for option, value in options.items() if value is not None}
    report = save(df, {**task_options(df.sparkSession, task, app), **given}, task if isinstance(task, Task) else None)
    log.info("spark_write: %s", report)
    return report


def tags_option(tags: Sequence[str]) -> str | None:
    """Return tags as the option has them: as JSON, since a tag may hold a comma."""
    return msgspec.json.encode(check_tags(tags)).decode() if tags else None


def task_options(spark: SparkSession, task: AnyTask | str, app: str | None) -> dict[str, str]:
    """Return the options that name a task, its queue and its store; send its app's code to the executors."""
    refuse_connect(spark)
    if isinstance(task, str):
        return {"task": task, **(_app_options(spark, app) if app is not None else {})}
    registry = task._registry
    target = app or import_path_of(registry, task.fn.__module__)
    named = {"task": task.name, "queue": task.queue, "url": registry.client.store.url}
    named["priority"] = str(task.setting("priority"))
    if target is None:
        return {**named, "codec": task.codec.name, "maxPayload": str(task.max_payload)}
    return {**named, **_app_options(spark, target)}


def _app_options(spark: SparkSession, app: str) -> dict[str, str]:
    """Return the options that name an app, after its code was sent to the executors."""
    send_app(spark, app)
    folder = folder_of(app)
    return {"app": app, **({"folder": folder} if folder else {})}


def save(df: DataFrame, options: Mapping[str, str], task: AnyTask | None) -> WriteReport:
    """Write the rows and return the report. Raise, in one line, for options or columns that are wrong."""
    checked_options = _checked(df.schema, options, task)
    url = checked_options.url
    refuse_remote(url, df.sparkSession)
    refuse_without_core(df.sparkSession, checked_options.what)
    with LoopThread(url) as loop:  # makes the store, where there is none yet
        sending = traces.sending(0)
        with traces.sent(sending):
            given = {**options, "url": url, **_trace_option(checked_options, sending)}
            activate(df.sparkSession)
            with own_errors():
                df.write.format(FORMAT).mode("append").options(**given).save()
            report = loop.run(find_report(loop.store, str(checked_options.name)))
            if sending is not None:
                sending.end(count=0 if report is None else report.rows)
    if report is None:
        what = checked_options.what
        raise ConfigError(f"{what}: its report has expired already; give hold= more than the time of a write")
    return report


def activate(spark: SparkSession) -> None:
    """Make the session the active one of this thread, as PySpark's `createDataFrame` does.

    In a thread that has none, Spark's writer does not find sources in Python.
    """
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


def _trace_option(options: WriteOptions, sending: traces.Sending | None) -> dict[str, str]:
    """Return the option that brings the trace context to the executors, which send the jobs."""
    context = {} if sending is None or PARENT in options.headers else sending.headers(options.queue)
    return {"headers": msgspec.json.encode({**options.headers, **context}).decode()} if context else {}


def _checked(schema: StructType, options: Mapping[str, str], task: AnyTask | None) -> WriteOptions:
    found = checked(parse_options(options), schema)
    if task is not None:
        check_columns(found, schema, task.signature)
    return found


def report(name: str, url: str) -> WriteReport | None:
    """Return the report of a named write: a batch's for as long as it is held, a stream's for good; else `None`."""
    with LoopThread(reachable(url)) as loop:
        return loop.run(find_report(loop.store, name))
