"""Where a value and its decoding differ, type for type.

`==` is not enough: `1 == True`, a str equals its subclass, and a dataclass may not define it at all.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from types import NoneType

from .plain import INT_MAX, INT_MIN, MAX_DEPTH, Value

_ABSENT = object()
_SIMPLE = frozenset({str, int, bool, NoneType, float, bytes})


def member(path: str, name: Value) -> str:
    """The path of a key, field or element; at an empty root it is the name alone."""
    if isinstance(name, str) and name.isidentifier():
        return f"{path}.{name}" if path else str(name)
    return f"{path}[{json.dumps(name) if isinstance(name, str) else repr(name)}]"


class Changed(Exception):
    """A value was `sent` and would come back as `back`; `steps` lead to it, the last one first."""

    def __init__(self, sent: Value, back: Value) -> None:
        super().__init__("the value would come back different")
        self.sent = sent
        self.back = back
        self.steps: list[Value] = []

    def under(self, root: str) -> str:
        """The path of the value, below that of the whole."""
        for step in reversed(self.steps):
            root = member(root, step)
        return root


class TooDeep(Exception):
    """The value has more than `MAX_DEPTH` levels."""


def compare(sent: Value, back: Value, depth: int = 0) -> None:
    """Both are the same, type for type, or `Changed` tells the first place where they are not."""
    kind: Value = type(sent)
    if kind is not type(back):
        if kind is int and type(back) is float and sent == back:
            return
        raise Changed(sent, back)
    if kind in _SIMPLE:
        if sent == back and (kind is not int or INT_MIN <= sent <= INT_MAX):
            return
        raise Changed(sent, back)
    if depth > MAX_DEPTH:
        raise TooDeep
    pairs = _pairs(sent, back)
    if pairs is not None:
        _compare_pairs(pairs, depth + 1)
    elif not _equal(sent, back):
        raise Changed(sent, back)


def _compare_pairs(pairs: Iterable[tuple[Value, Value, Value]], depth: int) -> None:
    for step, sent, back in pairs:
        try:
            compare(sent, back, depth)
        except Changed as change:
            change.steps.append(step)
            raise


def _pairs(sent: Value, back: Value) -> Iterable[tuple[Value, Value, Value]] | None:
    """The parts of a value beside those of its decoding, or None for a value without parts."""
    if isinstance(sent, dict):
        if _keys(sent) != _keys(back):
            raise Changed(sent, back)
        return [(key, child, back[key]) for key, child in sent.items()]
    kind: Value = type(sent)
    names = field_names(kind)
    if names is not None:
        return [(name, getattr(sent, name, _ABSENT), getattr(back, name, _ABSENT)) for name in names]
    if isinstance(sent, list | tuple):
        if len(sent) != len(back):
            raise Changed(sent, back)
        return zip(range(len(sent)), sent, back, strict=True)
    return None


def _keys(value: Value) -> set[Value]:
    # 1 and True are one key to Python, so the type goes along; an int may become a float
    return {(float if type(key) is int else type(key), key) for key in value}


@cache
def field_names(kind: Value) -> tuple[str, ...] | None:
    """The fields of a dataclass, Struct, NamedTuple, attrs or pydantic class; None for other classes."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.compare)
    if hasattr(kind, "__pydantic_fields__"):
        return (*kind.__pydantic_fields__, "__pydantic_extra__", "__pydantic_private__")
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(attribute.name for attribute in kind.__attrs_attrs__ if attribute.eq)
    names = getattr(kind, "__struct_fields__", getattr(kind, "_fields", None))
    return names if isinstance(names, tuple) else None


def _equal(sent: Value, back: Value) -> bool:
    if isinstance(sent, set | frozenset):
        return _keys(sent) == _keys(back)
    if isinstance(sent, datetime):
        return _instant(sent) == _instant(back)
    return sent is back or bool(sent == back)


def _instant(value: datetime) -> tuple[int | None, timedelta]:
    # `==` between zones is never true in the hour that a clock change repeats;
    # between naive times it ignores which of the two hours is meant
    offset = value.utcoffset()
    since = value.replace(tzinfo=None) - datetime.min
    return (value.fold, since) if offset is None else (None, since - offset)
