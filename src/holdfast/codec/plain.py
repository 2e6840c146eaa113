"""What JSON and MessagePack carry by themselves, with no annotation to help."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

from ..core.size import MOST_SIZE

MAX_DEPTH = 64
# JSON text and msgspec go further, but MessagePack, SQL columns and Spark do not
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
UNCOUNTED = 100_000
"""So many values are walked through before it is asked how many there are: a part may be in the whole many times."""
SCALARS = frozenset({str, int, float, bool, NoneType})

Hint: TypeAlias = object
"""An annotation: whatever Python allows behind a colon."""
Value: TypeAlias = Any
"""What a handler takes or returns. Its type is known to the handler's annotation alone."""
Check = Callable[[Value], bool]


class TooMany(Exception):
    """So many values that no limit allows them: parts of the whole are in it many times over."""


class _Overspent(Exception):
    """More values than are looked at before they are counted."""


def is_plain(value: Value, binary: bool) -> bool:
    """True if the value comes back equal and of the same types; `binary` allows bytes and infinities.

    Lone surrogates are left to the encoder, which refuses them by itself.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is not dict and kind is not list:
        return _plain_number(value, binary) or (binary and kind is bytes)
    try:
        return _plain_part(value, binary, 0, [UNCOUNTED])
    except _Overspent:
        if expanded(value) > MOST_SIZE:
            raise TooMany from None
        return _plain_once(value, binary, 0, {})


def _plain_part(value: Value, binary: bool, depth: int, left: list[int]) -> bool:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is dict:
        return depth < MAX_DEPTH and _plain_dict(value, binary, depth + 1, left)
    if kind is list:
        return depth < MAX_DEPTH and _plain_list(value, binary, depth + 1, left)
    return _plain_number(value, binary) or (binary and kind is bytes)


def _spend(left: list[int], values: int) -> None:
    left[0] -= values
    if left[0] < 0:
        raise _Overspent


def _plain_dict(value: dict[Value, Value], binary: bool, depth: int, left: list[int]) -> bool:
    _spend(left, len(value))
    for key, child in value.items():
        if type(key) is not str or not (type(child) is str or _plain_part(child, binary, depth, left)):
            return False
    return True


def _plain_list(value: list[Value], binary: bool, depth: int, left: list[int]) -> bool:
    _spend(left, len(value))
    for child in value:  # noqa: SIM110 - all() would take twice as long
        if not (type(child) is str or _plain_part(child, binary, depth, left)):
            return False
    return True


def _plain_once(value: Value, binary: bool, depth: int, seen: dict[int, int]) -> bool:
    """The same, for each list and dict once, though it be in the whole many times; `seen` has how deep."""
    if type(value) is not dict and type(value) is not list:
        return is_plain(value, binary)
    if seen.get(id(value), -1) >= depth:
        return True
    if depth >= MAX_DEPTH or (type(value) is dict and not all(type(key) is str for key in value)):
        return False
    parts = value.values() if type(value) is dict else value
    fine = all(_plain_once(part, binary, depth + 1, seen) for part in parts)
    if fine:
        seen[id(value)] = depth
    return fine


def expanded(value: Value) -> int:
    """Return how many values are encoded for lists and dicts, each counted as often as it is in the whole."""
    return _expanded(value, {}, 0)


def _expanded(value: Value, known: dict[int, int], depth: int) -> int:
    found = known.get(id(value))
    if found is not None or depth > MAX_DEPTH:
        return found or 0
    known[id(value)] = 0  # one that contains itself is refused for that
    parts = value.values() if type(value) is dict else value
    inner = sum(_expanded(part, known, depth + 1) for part in parts if type(part) in (dict, list))
    known[id(value)] = len(value) + inner
    return len(value) + inner


def _plain_number(value: Value, binary: bool) -> bool:
    kind = type(value)
    if kind is int:
        return bool(INT_MIN <= value <= INT_MAX)
    # inf - inf is nan, so this is isfinite without a call
    return kind is float and (value - value == 0 or (binary and value == value))


def kinds_of(annotation: Hint) -> frozenset[type] | None:
    """The exact types a plain annotation allows: empty for any of them, None for a rich annotation."""
    if annotation is Any or annotation is object:
        return frozenset()
    if annotation is None:
        return frozenset({NoneType})
    if isinstance(annotation, type) and annotation in SCALARS:
        return frozenset({annotation})
    if annotation in (dict, dict[str, Any], dict[str, object]):
        return frozenset({dict})
    if annotation in (list, list[Value], list[object]):
        return frozenset({list})
    return _kinds_of_union(annotation)


def _kinds_of_union(annotation: Hint) -> frozenset[type] | None:
    if get_origin(annotation) not in (Union, UnionType):
        return None
    members = [kinds_of(member) for member in get_args(annotation)]
    if not all(members):
        # Any in a union is Any, but one rich member makes the union rich
        return None if None in members else frozenset()
    return frozenset().union(*(kinds for kinds in members if kinds))
