"""What JSON and MessagePack carry by themselves, with no annotation to help."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

MAX_DEPTH = 64
# JSON text and msgspec go further, but MessagePack, SQL columns and Spark do not
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
SCALARS = frozenset({str, int, float, bool, NoneType})

Check = Callable[[Any], bool]


def is_plain(value: Any, binary: bool, depth: int = 0) -> bool:
    """True if the value comes back equal and of the same types; `binary` allows bytes and infinities.

    Lone surrogates are left to the encoder, which refuses them by itself.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is dict:
        return depth < MAX_DEPTH and _plain_dict(value, binary, depth + 1)
    if kind is list:
        return depth < MAX_DEPTH and _plain_list(value, binary, depth + 1)
    return _plain_number(value, binary) or (binary and kind is bytes)


def _plain_dict(value: dict[Any, Any], binary: bool, depth: int) -> bool:
    for key, child in value.items():
        if type(key) is not str or not (type(child) is str or is_plain(child, binary, depth)):
            return False
    return True


def _plain_list(value: list[Any], binary: bool, depth: int) -> bool:
    for child in value:  # noqa: SIM110 - all() would take twice as long
        if not (type(child) is str or is_plain(child, binary, depth)):
            return False
    return True


def _plain_number(value: Any, binary: bool) -> bool:
    kind = type(value)
    if kind is int:
        return bool(INT_MIN <= value <= INT_MAX)
    # inf - inf is nan, so this is isfinite without a call
    return kind is float and (value - value == 0 or (binary and value == value))


def kinds_of(annotation: Any) -> frozenset[type] | None:
    """The exact types a plain annotation allows: empty for any of them, None for a rich annotation."""
    if annotation is Any or annotation is object:
        return frozenset()
    if annotation is None:
        return frozenset({NoneType})
    if isinstance(annotation, type) and annotation in SCALARS:
        return frozenset({annotation})
    if annotation in (dict, dict[str, Any], dict[str, object]):
        return frozenset({dict})
    if annotation in (list, list[Any], list[object]):
        return frozenset({list})
    return _kinds_of_union(annotation)


def _kinds_of_union(annotation: Any) -> frozenset[type] | None:
    if get_origin(annotation) not in (Union, UnionType):
        return None
    members = [kinds_of(member) for member in get_args(annotation)]
    if not all(members):
        # Any in a union is Any, but one rich member makes the union rich
        return None if None in members else frozenset()
    return frozenset().union(*(kinds for kinds in members if kinds))


def check_for(kinds: frozenset[type], binary: bool) -> Check:
    """A check for values of these types, as cheap as the types allow."""
    if not kinds:
        return lambda value: is_plain(value, binary)
    if kinds <= {str, bool, NoneType}:
        return lambda value: type(value) in kinds
    if float in kinds and int not in kinds:
        return lambda value: (type(value) in kinds and is_plain(value, binary)) or is_exact_float(value)
    return lambda value: type(value) in kinds and is_plain(value, binary)


def is_exact_float(value: Any) -> bool:
    """True for an int that becomes an equal float."""
    return type(value) is int and INT_MIN <= value <= INT_MAX and float(value) == value
