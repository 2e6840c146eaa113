"""Whether the columns of a DataFrame fit a task, asked before anything is enqueued."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from ..app import Holdfast
from ..codec import Signature
from ..codec.plain import kinds_of
from ..errors import ConfigError
from ..find import load_app
from ..store import shown
from ..task import Task
from .option import reachable, this_machine
from .order import Order
from .place import absolute_target, see

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_PYTHON: tuple[tuple[tuple[type[DataType], ...], type], ...] = (
    ((StringType,), str),
    (_WHOLE, int),
    ((FloatType, DoubleType), float),
    ((BooleanType,), bool),
    ((ArrayType,), list),
    ((MapType, StructType), dict),
)
_ASIDE: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "idColumn": ((StringType, *_WHOLE), "a string or a whole number"),
    "runAtColumn": ((TimestampType,), "a timestamp (with a time zone)"),
    "priorityColumn": (_WHOLE, "a whole number"),
    "keyColumn": ((StringType, *_WHOLE), "a string or a whole number"),
}


def fitted(order: Order, schema: StructType) -> Order:
    """Return the order with all that the app says; raise when the columns cannot be what the order says."""
    task = None
    if order.app is not None:
        see(order.folder)
        app = load_app(order.app)
        task = task_of(app, order)
        order = _completed(order, app, task)
    if not order.url:
        raise ConfigError('option("url"): which store? Give url, or app="module:app"')
    if not order.queue:
        raise ConfigError('option("queue"): which queue? Give queue, or app="module:app" and the task')
    check_columns(order, schema, task.signature if task else None)
    return replace(order, url=reachable(order.url), folder=order.folder or os.getcwd(), machine=this_machine())


def _completed(order: Order, app: Holdfast, task: Task[Any, Any] | None) -> Order:
    url = order.url or app.store.url
    if not app.store.shared and not order.url:
        raise ConfigError(
            f"{shown(url)!r}: Spark works in other processes, which cannot see this one's memory; use sqlite://"
        )
    assert order.app is not None
    order = replace(order, url=url, app=absolute_target(order.app))
    if task is None:
        return order
    return replace(
        order,
        queue=order.queue or task.queue,
        priority=order.priority or task.setting("priority"),
        result_ttl_ms=app.registry.task_ttl_ms(task),
    )


def task_of(app: Holdfast, order: Order) -> Task[Any, Any] | None:
    """Return the order's task as the app has it; `None` for plain payloads."""
    if order.task is None:
        return None
    if order.task not in app.registry.tasks:
        known = ", ".join(app.registry.tasks) or "none"
        raise ConfigError(f'option("task", {order.task!r}): {order.app!r} has no such task; it has {known}')
    return app.registry.tasks[order.task]


def check_columns(order: Order, schema: StructType, signature: Signature | None) -> None:
    """Raise when a column is missing, or is of a type that its option or its argument cannot have."""
    types = {field.name: field.dataType for field in schema.fields}
    for option, column in [*order.set_aside.items(), *(("hashColumns", each) for each in order.hash_columns)]:
        if column not in types:
            raise ConfigError(f'option("{option}", {column!r}): there is no such column; there are {", ".join(types)}')
        if option in _ASIDE and not isinstance(types[column], _ASIDE[option][0]):
            wanted, found = _ASIDE[option][1], types[column].simpleString()
            raise ConfigError(f'option("{option}", {column!r}): the column is {found}, and must be {wanted}')
    if signature is not None:
        arguments = {name: kind for name, kind in types.items() if name not in order.set_aside.values()}
        _check_arguments(order, arguments, signature)


def _check_arguments(order: Order, types: dict[str, DataType], signature: Signature) -> None:
    advice = "rename or drop columns (df.select), or set some aside (idColumn, runAtColumn, priorityColumn, keyColumn)"
    try:
        signature.bind((), dict.fromkeys(types))
    except TypeError as error:
        raise ConfigError(f"{order.what}: the columns {', '.join(types)} do not fit: {error}; {advice}") from None
    hints = signature.type.__annotations__
    for name, kind in types.items():
        allowed = kinds_of(hints[name]) if name in hints else frozenset()
        found = next((python for spark, python in _PYTHON if isinstance(kind, spark)), None)
        if not allowed or found in allowed or (found is int and float in allowed):
            continue
        wanted = " | ".join(sorted(each.__name__ for each in allowed))
        raise ConfigError(
            f"{order.what}: column {name!r} is {kind.simpleString()}, and {signature.name}() takes {wanted} "
            f"there; cast it (df.withColumn) or change the task"
        )
