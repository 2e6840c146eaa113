"""What to say about a refused value: what it is, why it cannot go, what to do instead."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple, get_args, get_origin, is_typeddict
from uuid import UUID

import msgspec

from .plain import INT_MAX, INT_MIN, MAX_DEPTH
from .same import Changed, TooDeep
from .shape import Misfit, Plain, Shape, Unsupported

# what to pass where no annotation says how to carry the value; the first that matches
_INSTEAD: tuple[tuple[tuple[type, ...], str], ...] = (
    ((Enum,), "its value"),
    ((str,), "a plain str"),
    ((int,), "a plain int"),
    ((float,), "a plain float"),
    ((set, frozenset, tuple, list), "a list"),
    ((date, time, timedelta, Decimal, UUID, bytes, bytearray, memoryview), "a string"),
)


class Refusal(NamedTuple):
    """A value that a codec refused, and all that is known about it."""

    title: str
    shape: Shape
    error: Exception | None
    value: Any
    annotation: Any
    path: str
    noun: str


def words(refusal: Refusal) -> tuple[str, str]:
    """The path of the value and the rest of the sentence."""
    error, value = refusal.error, refusal.value
    if isinstance(error, TooDeep):
        return refusal.path, deep()
    if isinstance(error, Unsupported):
        return refusal.path, _unsupported(refusal, error)
    if isinstance(error, Changed):
        return _changed(refusal, error)
    if isinstance(error, UnicodeEncodeError) and isinstance(value, str):
        return (
            refusal.path,
            "has a lone surrogate, which UTF-8 cannot carry: remove it, or pass bytes as base64 text",
        )
    if isinstance(error, Misfit) and _fits_kinds(refusal):
        return refusal.path, _not_plain(refusal)
    if isinstance(error, Misfit | msgspec.ValidationError):
        return refusal.path, _unfit(refusal)
    return refusal.path, _odd_key(refusal) or _unencodable(refusal)


def _fits_kinds(refusal: Refusal) -> bool:
    if not isinstance(refusal.shape, Plain):
        return False
    kinds, kind = refusal.shape.kinds, type(refusal.value)
    return not kinds or kind in kinds or (kind is int and float in kinds)


def _not_plain(refusal: Refusal) -> str:
    value, kind = refusal.value, type(refusal.value)
    if kind is float:
        return f"is {value}, which {refusal.title} cannot carry as it is: pass None or a string"
    if kind is int and INT_MIN <= value <= INT_MAX:
        return f"is an int that no float equals: annotate the {refusal.noun} as int, or pass a float"
    if kind is int:
        return f"is an int outside 64 bits, which {refusal.title} cannot carry as it is: pass a string"
    if kind in (dict, list):
        return _odd_key(refusal) or deep()
    return f"is {a(kind)}, which {refusal.title} cannot carry as it is: {_advice(refusal.noun, value)}"


def _advice(noun: str, value: Any) -> str:
    kind = type(value)
    instead = next((text for kinds, text in _INSTEAD if isinstance(value, kinds)), "a dict")
    if isinstance(value, str | int | float | list | dict) and not isinstance(value, Enum):
        return f"pass {instead}"  # no annotation brings back a subclass of these
    return f"annotate the {noun} as {kind.__name__}, or pass {instead}"


def deep() -> str:
    """What is wrong with a value of too many levels."""
    return f"is nested deeper than {MAX_DEPTH} levels: flatten it, or pass it as text"


def _odd_key(refusal: Refusal) -> str:
    """What is wrong with a key of this dict, if anything is."""
    if not isinstance(refusal.value, dict):
        return ""
    for key in refusal.value:
        if type(key) is not str:
            advice = _key_advice(refusal.noun, key)
            return f"has the key {key!r}, {a(type(key))}, and keys must be str here: {advice}"
        if any("\ud800" <= letter <= "\udfff" for letter in key):
            return f"has the key {key!r} with a lone surrogate, which UTF-8 cannot carry: rename the key"
    return ""


def _key_advice(noun: str, key: Any) -> str:
    if isinstance(key, Enum) or type(key) in (int, float, date, datetime, UUID):
        return f"use str keys, or annotate the {noun} as dict[{type(key).__name__}, ...]"
    return "use plain str keys"


def _unsupported(refusal: Refusal, error: Unsupported) -> str:
    return (
        f"is {a(type(refusal.value))}, and {refusal.title} cannot decode the annotation "
        f"{type_name(refusal.annotation)} ({error}): annotate the {refusal.noun} with one type, "
        "or pass plain values"
    )


def _changed(refusal: Refusal, error: Changed) -> tuple[str, str]:
    path, sent, back = error.under(refusal.path), error.sent, error.back
    if type(sent) is type(back):
        return path, _not_equal(refusal, sent, back)
    if not error.steps:
        return path, _unfit(refusal)
    return path, f"is {a(type(sent))}, and would come back as {a(type(back))}: {_advice('field', sent)}"


def _not_equal(refusal: Refusal, sent: Any, back: Any) -> str:
    if isinstance(sent, dict):
        lost = next((key for key in sent if key not in back), None)
        return _odd_key(refusal) or (
            f"has the key {lost!r}, which would not come back: declare it in the annotation, or leave it out"
        )
    kind = a(type(sent))
    return f"is {kind} that {refusal.title} would bring back different: pass one that equals its own copy"


def _unfit(refusal: Refusal) -> str:
    detail = f" ({refusal.error})" if isinstance(refusal.error, msgspec.ValidationError) else ""
    if detail and _has_kind(refusal.value, refusal.annotation):
        return (
            f"does not fit its annotation {type_name(refusal.annotation)}{detail}: "
            f"pass a value that fits, or change the annotation of the {refusal.noun}"
        )
    return (
        f"was expected to be {type_name(refusal.annotation)}, got {type_name(type(refusal.value))}{detail}: "
        f"pass what is annotated, or change the annotation of the {refusal.noun}"
    )


def _has_kind(value: Any, annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _has_kind(value, get_args(annotation)[0])
    return type(value) is (dict if is_typeddict(annotation) else get_origin(annotation) or annotation)


def _unencodable(refusal: Refusal) -> str:
    kind = a(type(refusal.value))
    return f"is {kind}, which {refusal.title} cannot carry ({refusal.error}): pass plain values"


def a(kind: type) -> str:
    """The name of a type with its article, if it takes one."""
    name = type_name(kind)
    if name in ("None", "bytes"):
        return name
    return f"an {name}" if name[0] in "aeiouAEIO" else f"a {name}"


def type_name(annotation: Any) -> str:
    """An annotation as its author wrote it, without modules."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return re.sub(r"(?:[\w<>]+\.)+(?=\w)", "", repr(annotation))
