"""Conditions of the option `where`, which the store applies: `state = 'failed' AND run > 100`.

A condition that means the same in every store and in Spark is taken; every other one is refused, and is for Spark's own
`where`. Conditions can only be joined by AND.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ...errors import ConfigError
from ...store.scan import Condition, Op
from .arrow import is_decoded, stored_name
from .tables import SCHEMAS, Table

Literal = str | int | float
_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|(-?\d+(?:\.\d+)?)|(\w+)|(<=|>=|==|[=<>(),]))")
_OPS: dict[str, Op] = {"=": "=", "==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MOST_WHOLE = 2**63 - 1
"""The largest whole number that every store can compare with."""
_FORM = "COLUMN = VALUE, <, <=, >, >=, IN (…), LIKE 'text%', IS NULL or IS NOT NULL, joined by AND"


def conditions(text: str, table: Table) -> tuple[Condition, ...]:
    """Return the conditions of a text, or raise and say which cannot be taken."""
    words = _Words(text, SCHEMAS[table], table)
    found = [words.condition()]
    while words.take("and"):
        found.append(words.condition())
    if words.left:
        raise words.wrong(f"{words.left[0]!r} stands where AND, or the end, should")
    return tuple(found)


def instant_ms(text: str, what: str) -> int:
    """Return an instant in ISO 8601 as milliseconds; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{what}: an instant such as 2026-11-18T09:30:00Z, not {text!r}") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at.microsecond % 1000:
        raise ConfigError(f"{what}: stores keep milliseconds, and {text!r} is finer")
    return round(at.timestamp() * 1000)


class _Words:
    """The words of a text, taken one after the other."""

    def __init__(self, text: str, schema: StructType, table: Table) -> None:
        self._text, self._schema, self._table = text, schema, table
        self.left = self._split(text)

    def _split(self, text: str) -> list[str]:
        found, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong(f"{text[at:].strip()[0]!r} is none of its signs")
            found.append(match[0].strip())
            at = match.end()
        return found

    def wrong(self, why: str) -> ConfigError:
        return ConfigError(
            f"option where={self._text!r}: {why}; the source takes {_FORM}, and leaves the rest to Spark: "
            "load().where(…)"
        )

    def take(self, *words: str) -> bool:
        """Take these words, if they come next."""
        if [each.lower() for each in self.left[: len(words)]] != list(words):
            return False
        del self.left[: len(words)]
        return True

    def next(self) -> str:
        if not self.left:
            raise self.wrong("it ends in the middle")
        return self.left.pop(0)

    def condition(self) -> Condition:
        field = self._field(self.next())
        column = stored_name(field)
        if self.take("is", "not", "null"):
            return Condition(column, "set")
        if self.take("is", "null"):
            return Condition(column, "null")
        value = self._values(field)
        if self.take("in", "("):
            return Condition(column, "in", self._list(value))
        if self.take("like"):
            return Condition(column, "starts", self._prefix(field))
        sign = self.next()
        if sign not in _OPS:
            raise self.wrong(f"{sign!r} stands where a comparison should")
        return Condition(column, _OPS[sign], value(self.next()))

    def _field(self, name: str) -> StructField:
        if name not in self._schema.names:
            raise self.wrong(f"{self._table} has no column {name!r}")
        field = self._schema[name]
        if is_decoded(self._table, name) or not isinstance(field.dataType, tuple(_READ)):
            raise self.wrong(f"the store cannot choose by {name!r}")
        return field

    def _values(self, field: StructField) -> Callable[[str], Literal]:
        read = _READ[type(field.dataType)]

        def value(word: str) -> Literal:
            try:
                return read(word, field.name)
            except ConfigError:
                raise
            except ValueError:
                raise self.wrong(f"{word} is no {field.dataType.simpleString()}, as {field.name!r} is") from None

        return value

    def _list(self, value: Callable[[str], Literal]) -> tuple[Literal, ...]:
        found = [value(self.next())]
        while self.take(","):
            found.append(value(self.next()))
        if not self.take(")"):
            raise self.wrong("a list after IN ends with )")
        return tuple(found)

    def _prefix(self, field: StructField) -> str:
        pattern = _text(self.next(), field.name)
        prefix = pattern.removesuffix("%")
        if not isinstance(field.dataType, StringType) or prefix == pattern or re.search(r"[%_\\]", prefix):
            raise self.wrong("LIKE is for the beginning of a text: LIKE 'text%'")
        return prefix


def _text(word: str, name: str) -> str:
    if not word.startswith("'"):
        raise ValueError(word)
    return word[1:-1].replace("''", "'")


def _whole(word: str, name: str) -> int:
    number = int(word)
    if abs(number) > MOST_WHOLE:
        raise ValueError(word)
    return number


def _number(word: str, name: str) -> float:
    return float(word)


def _instant(word: str, name: str) -> int:
    return instant_ms(_text(word, name), f"where {name}")


_READ: dict[type[DataType], Callable[[str, str], Literal]] = {
    StringType: _text,
    LongType: _whole,
    IntegerType: _whole,
    DoubleType: _number,
    TimestampType: _instant,
}
