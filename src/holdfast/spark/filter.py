"""Filters of a query as conditions of a store, where both mean the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import datasource as ds
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from ..store.scan import Condition, Op
from .arrow import MADE_HERE, stored_name
from .schema import SCHEMAS, Table

_OPS: dict[type, Op] = {
    ds.EqualTo: "=",
    ds.In: "in",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
    ds.StringStartsWith: "starts",
    ds.IsNull: "null",
    ds.IsNotNull: "set",
}
MOST = 1000
"""A longer list is left to Spark: databases take only so many values in a statement."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def condition(table: Table, filter: Any) -> Condition | None:
    """Return what a filter asks of the store; `None` when that is left to Spark."""
    op = _OPS.get(type(filter))
    if op is None or len(filter.attribute) != 1:
        return None
    field = next((each for each in SCHEMAS[table] if each.name == filter.attribute[0]), None)
    if field is None or field.name == MADE_HERE[table]:
        return None
    if op in ("null", "set"):
        return None if isinstance(field.dataType, BooleanType | StructType) else Condition(stored_name(field), op)
    if isinstance(field.dataType, TimestampType):
        return _instant(field, op, filter.value)
    if not _fits(field, op, filter.value):
        return None
    return Condition(stored_name(field), op, tuple(filter.value) if op == "in" else filter.value)


def _fits(field: StructField, op: Op, value: Any) -> bool:
    values = value if op == "in" else [value]
    if len(values) > MOST:
        return False
    if isinstance(field.dataType, StringType):
        return all(isinstance(each, str) for each in values)
    whole = isinstance(field.dataType, LongType | IntegerType)
    return whole and op != "starts" and all(type(each) is int for each in values)


def _instant(field: StructField, op: Op, value: Any) -> Condition | None:
    """Return a comparison of milliseconds that holds exactly when that of microseconds does."""
    if not isinstance(value, datetime) or value.tzinfo is None or op in ("in", "starts"):
        return None
    micros = (value - _EPOCH) // timedelta(microseconds=1)
    below, rest = divmod(micros, 1000)
    if op == "=" and rest:
        return None
    return Condition(stored_name(field), op, below + 1 if rest and op in (">=", "<") else below)
