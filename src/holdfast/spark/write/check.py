"""Check that the columns of a DataFrame fit a task, before anything is enqueued."""

from __future__ import annotations

import os
from dataclasses import replace

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

from ...app.app import Holdfast
from ...app.loader import load_app
from ...app.task import AnyTask
from ...codec import Signature
from ...codec.plain import kinds_of
from ...errors import ConfigError
from ..app_code import absolute_path, add_to_path
from ..store_url import reachable, refuse_memory, this_machine
from .options import WriteOptions

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_PYTHON: tuple[tuple[tuple[type[DataType], ...], type], ...] = (
    ((StringType,), str),
    (_WHOLE, int),
    ((FloatType, DoubleType), float),
    ((BooleanType,), bool),
    ((ArrayType,), list),
    ((MapType, StructType), dict),
)
_SET_ASIDE: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "idColumn": ((StringType, *_WHOLE), "a string or a whole number"),
    "runAtColumn": ((TimestampType,), "a timestamp (with a time zone)"),
    "priorityColumn": (_WHOLE, "a whole number"),
    "keyColumn": ((StringType, *_WHOLE), "a string or a whole number"),
    "tagsColumn": ((StringType, ArrayType), "a string or an array of strings"),
}


def checked(options: WriteOptions, schema: StructType) -> WriteOptions:
    """Return the options, completed by what the app says; raise when the columns do not fit them."""
    task = None
    if options.app is not None:
        add_to_path(options.folder)
        app = load_app(options.app)
        task = task_of(app, options)
        options = _completed(options, app, task)
    if not options.url:
        raise ConfigError('option("url"): which store? Give url, or app="module:app"')
    if not options.queue:
        raise ConfigError('option("queue"): which queue? Give queue, or app="module:app" and the task')
    check_columns(options, schema, task.signature if task else None)
    return replace(options, url=reachable(options.url), folder=options.folder or os.getcwd(), machine=this_machine())


def _completed(options: WriteOptions, app: Holdfast, task: AnyTask | None) -> WriteOptions:
    url = options.url or app.store.url
    refuse_memory(url)
    assert options.app is not None
    options = replace(options, url=url, app=absolute_path(options.app))
    required = task.key_required if task else app.registry.key_required(options.queue)
    if required and options.key_column is None:
        raise ConfigError(
            f'option("keyColumn"): jobs of {options.what} must have a key (key_required): name its column'
        )
    options = replace(options, key_required=required)
    if task is None:
        return options
    return replace(
        options,
        queue=options.queue or task.queue,
        priority=options.priority or task.setting("priority"),
        result_ttl_ms=task.defaults.result_ttl_ms,
    )


def task_of(app: Holdfast, options: WriteOptions) -> AnyTask | None:
    """Return the task of a write as the app has it; `None` for plain payloads."""
    if options.task is None:
        return None
    if options.task not in app.registry.tasks:
        known = ", ".join(app.registry.tasks) or "none"
        raise ConfigError(f'option("task", {options.task!r}): {options.app!r} has no such task; it has {known}')
    return app.registry.tasks[options.task]


def check_columns(options: WriteOptions, schema: StructType, signature: Signature | None) -> None:
    """Raise when a column is missing, or is of a type that its option or its argument cannot have."""
    types = {field.name: field.dataType for field in schema.fields}
    for option, column in [*options.set_aside.items(), *(("hashColumns", each) for each in options.hash_columns)]:
        if column not in types:
            raise ConfigError(f'option("{option}", {column!r}): there is no such column; there are {", ".join(types)}')
        if option in _SET_ASIDE and not isinstance(types[column], _SET_ASIDE[option][0]):
            wanted, found = _SET_ASIDE[option][1], types[column].simpleString()
            raise ConfigError(f'option("{option}", {column!r}): the column is {found}, and must be {wanted}')
    if signature is not None:
        arguments = {name: kind for name, kind in types.items() if name not in options.set_aside.values()}
        _check_arguments(options, arguments, signature)


def _check_arguments(options: WriteOptions, types: dict[str, DataType], signature: Signature) -> None:
    advice = f"rename or drop columns (df.select), or set some aside ({', '.join(_SET_ASIDE)})"
    try:
        signature.bind((), dict.fromkeys(types))
    except TypeError as error:
        raise ConfigError(f"{options.what}: the columns {', '.join(types)} do not fit: {error}; {advice}") from None
    hints = signature.type.__annotations__
    for name, kind in types.items():
        allowed = kinds_of(hints[name]) if name in hints else frozenset()
        found = next((python for spark, python in _PYTHON if isinstance(kind, spark)), None)
        if not allowed or found in allowed or (found is int and float in allowed):
            continue
        wanted = " | ".join(sorted(each.__name__ for each in allowed))
        raise ConfigError(
            f"{options.what}: column {name!r} is {kind.simpleString()}, and {signature.name}() takes {wanted} "
            f"there; cast it (df.withColumn) or change the task"
        )
