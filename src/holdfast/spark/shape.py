"""The Spark type of what a task returns."""

from __future__ import annotations

import dataclasses
import datetime as dt
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_SCALARS: dict[Any, DataType] = {
    str: StringType(), int: LongType(), float: DoubleType(), bool: BooleanType(),
    dt.datetime: TimestampType(), dt.date: DateType(),
}  # fmt: skip


def spark_type(annotation: Any) -> DataType | None:
    """Return the type of results with this annotation; `None` where only JSON will do."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        members = [each for each in arguments if each is not NoneType]
        return spark_type(members[0]) if len(members) == 1 else None
    if origin is list and arguments:
        return ArrayType(_inner(arguments[0]))
    if origin is dict and arguments and arguments[0] is str:
        return MapType(StringType(), _inner(arguments[1]))
    return _struct(annotation) if isinstance(annotation, type) else None


def _inner(annotation: Any) -> DataType:
    """What is inside can be JSON by itself."""
    return spark_type(annotation) or StringType()


def _struct(kind: type) -> DataType | None:
    known = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or is_typeddict(kind)
    if not (known or hasattr(kind, "model_fields")):
        return None
    hints = get_type_hints(kind)
    names = list(getattr(kind, "model_fields", None) or _fields(kind) or hints)
    return StructType([StructField(name, _inner(hints[name])) for name in names if name in hints]) if names else None


def _fields(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(getattr(kind, "__struct_encode_fields__", ()))
