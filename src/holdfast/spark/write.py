"""`holdfast.spark.write`: a DataFrame becomes jobs, and a report says what became of its rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..core.duration import Duration, to_ms
from ..errors import ConfigError
from ..task import Task
from .fit import check_columns, fitted
from .line import Line
from .option import reachable
from .order import HOLD, Order, read_options
from .place import folder_of, ship, target_of
from .plainly import told_plainly
from .report import WriteReport, kept_report
from .session import refuse_remote

log = logging.getLogger("holdfast")
FORMAT = "holdfast"


def write(
    df: DataFrame,
    task: Task[Any, Any] | str,
    *,
    name: str | None = None,
    app: str | None = None,
    url: str | None = None,
    queue: str | None = None,
    id_column: str | None = None,
    run_at_column: str | None = None,
    priority_column: str | None = None,
    key_column: str | None = None,
    hash_columns: Sequence[str] = (),
    hold: Duration = HOLD,
) -> WriteReport:
    """Every row is a job in the store; return what became of them. The same name again enqueues nothing twice.

    `task` is a task, or the name of one: then `app="module:app"`, or `url` and `queue`, say where it is.
    """
    columns = {
        "idColumn": id_column, "runAtColumn": run_at_column, "priorityColumn": priority_column,
        "keyColumn": key_column, "hashColumns": ",".join(hash_columns) or None,
    }  # fmt: skip
    options = {
        "name": f"write-{uuid4().hex[:16]}" if name is None else name, "app": app, "url": url, "queue": queue,
        "hold": str(to_ms(hold, "hold") / 1000), **columns,
    }  # fmt: skip
    given = {option: value for option, value in options.items() if value is not None}
    report = save(df, {**task_options(df.sparkSession, task, app), **given}, task if isinstance(task, Task) else None)
    log.info("%s", report)
    return report


def task_options(spark: SparkSession, task: Task[Any, Any] | str, app: str | None) -> dict[str, str]:
    """Return the options that name a task, its queue and its store; executors can import its app, where anyone can."""
    if isinstance(task, str):
        return {"task": task, **(_sent(spark, app) if app is not None else {})}
    registry = task._registry
    target = app or target_of(registry, task.fn.__module__)
    named = {"task": task.name, "queue": task.queue, "url": registry.client.store.url}
    named["priority"] = str(task.setting("priority"))
    if target is None:
        return {**named, "codec": task.codec.name, "maxPayload": str(task.max_payload)}
    return {**named, **_sent(spark, target)}


def _sent(spark: SparkSession, app: str) -> dict[str, str]:
    """Return the options that name an app, which executors can import now."""
    ship(spark, app)
    folder = folder_of(app)
    return {"app": app, **({"folder": folder} if folder else {})}


def save(df: DataFrame, options: Mapping[str, str], task: Task[Any, Any] | None) -> WriteReport:
    """The rows are written; return the report. What can be wrong with options or columns is said here, in one line."""
    order = _checked(df.schema, options, task)
    refuse_remote(order.url, df.sparkSession)
    with Line(order.url) as line:  # which makes the store, where there is none yet
        with told_plainly():
            df.write.format(FORMAT).mode("append").options(**{**options, "url": order.url}).save()
        report = line(kept_report(line.store, str(order.name)))
    if report is None:
        raise ConfigError(f"{order.what}: its report has expired already; give hold= more than the time of a write")
    return report


def _checked(schema: StructType, options: Mapping[str, str], task: Task[Any, Any] | None) -> Order:
    order = fitted(Order(**read_options(options)), schema)
    if task is not None:
        check_columns(order, schema, task.signature)
    return order


def report(name: str, url: str) -> WriteReport | None:
    """Return what became of a named write: a batch for as long as it is held, a stream for good. `None`: not known."""
    with Line(reachable(url)) as line:
        return line(kept_report(line.store, name))
