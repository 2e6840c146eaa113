"""The Spark type of what a task returns."""

from __future__ import annotations

import dataclasses
import datetime as dt
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints, is_typeddict

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

Annotation: TypeAlias = Any
_SCALARS: dict[Annotation, DataType] = {
    str: StringType(), int: LongType(), float: DoubleType(), bool: BooleanType(),
    dt.datetime: TimestampType(), dt.date: DateType(),
}  # fmt: skip


def spark_type(annotation: Annotation, inside: tuple[Annotation, ...] = ()) -> DataType | None:
    """Return the Spark type of an annotation; `None` where only JSON text fits, as for a type that contains itself."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin: object = get_origin(annotation)
    arguments = get_args(annotation)
    if origin in (Union, UnionType):
        members = [each for each in arguments if each is not NoneType]
        return spark_type(members[0], inside) if len(members) == 1 else None
    if origin is list and arguments:
        return ArrayType(_inner(arguments[0], inside))
    if origin is dict and arguments and arguments[0] is str:
        return MapType(StringType(), _inner(arguments[1], inside))
    known = isinstance(annotation, type) and annotation not in inside
    return _struct(annotation, (*inside, annotation)) if known else None


def _inner(annotation: Annotation, inside: tuple[Annotation, ...]) -> DataType:
    """Return the type of an element, JSON text where there is no other."""
    return spark_type(annotation, inside) or StringType()


def _struct(kind: type, inside: tuple[Annotation, ...]) -> DataType | None:
    known = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or is_typeddict(kind)
    as_array = issubclass(kind, msgspec.Struct) and kind.__struct_config__.array_like
    if as_array or not (known or hasattr(kind, "model_fields")):
        return None
    hints = get_type_hints(kind)
    fields = [(written, name) for written, name in _fields(kind, hints) if name in hints]
    return (
        StructType([StructField(written, _inner(hints[name], inside)) for written, name in fields]) if fields else None
    )


def _fields(kind: type, hints: dict[str, Annotation]) -> list[tuple[str, str]]:
    """Return how each field is written, and what the class calls it."""
    if dataclasses.is_dataclass(kind):
        return [(field.name, field.name) for field in dataclasses.fields(kind)]
    if issubclass(kind, msgspec.Struct):
        return list(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    return [(name, name) for name in getattr(kind, "model_fields", None) or hints]
