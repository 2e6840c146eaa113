"""Why a value is refused: which part of it is to blame, what that is, why it cannot go, and what to do instead.

This runs after a refusal only, so it may take its time: it tries the parts one by one, and goes down into
the first that is refused by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Annotated, Any, NamedTuple, Protocol, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

import msgspec

from ..errors import PayloadError
from .compare import Changed, TooDeep, field_names, member
from .plain import INT_MAX, INT_MIN, MAX_DEPTH, Hint, Value
from .shape import Misfit, PlainShape, Shape, Unsupported

# what to pass where no annotation says how to carry the value; the first that matches
_INSTEAD: tuple[tuple[tuple[type, ...], str], ...] = (
    ((Enum,), "its value"),
    ((str,), "a plain str"),
    ((int,), "a plain int"),
    ((float,), "a plain float"),
    ((set, frozenset, tuple, list), "a list"),
    ((date, time, timedelta, Decimal, UUID, bytes, bytearray, memoryview), "a string"),
)


class Shapes(Protocol):
    """A codec, as far as a refusal needs it."""

    title: str

    def shape(self, annotation: Hint) -> Shape:
        """The shape of an annotation."""


class ValuePart(NamedTuple):
    """A value, its annotation, where it is, and what carries the annotation."""

    value: Value
    annotation: Hint
    path: str
    noun: str


def blame(codec: Shapes, value: Value, annotation: Hint, path: str) -> PayloadError:
    """The error for a refused value, with the path of the smallest part that is refused by itself."""
    part = ValuePart(value, annotation, path, "return value" if path == "result" else "parameter")
    argument, above = part, set[int]()
    while id(part.value) not in above:
        if len(above) > MAX_DEPTH:  # to look further down could take a hundred thousand levels
            return PayloadError(f"{argument.path or 'payload'} {deep()}", path=argument.path)
        above.add(id(part.value))
        worse = next((below for below in parts(part) if _refusal(codec, below)), None)
        if worse is None:
            return _error(codec, part)
        part = worse
        argument = argument if argument.path else part
    return PayloadError(f"{part.path} contains itself: pass a value without cycles", path=part.path)


def _refusal(codec: Shapes, part: ValuePart) -> Exception | None:
    try:
        codec.shape(part.annotation).encode(part.value)
    except Exception as error:
        return error
    return None


def _error(codec: Shapes, part: ValuePart) -> PayloadError:
    error = _refusal(codec, part)
    refusal = Refusal(codec.title, codec.shape(part.annotation), error, *part)
    path, message = words(refusal)
    return PayloadError(f"{path or 'payload'} {message}", path=path)


def parts(part: ValuePart) -> Iterator[ValuePart]:
    """The parts of a value that has the type its annotation asks for; nothing for other values."""
    value, annotation = part.value, _chosen(part.value, part.annotation)
    if isinstance(value, dict):
        yield from _dict_parts(part, annotation)
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        yield from _list_parts(part, annotation)
    elif _is_a(value, annotation) and not _is_model(value):
        yield from _field_parts(part, annotation)


def _is_model(value: Value) -> bool:
    # pydantic judges its fields by its own rules, not by msgspec's
    return hasattr(type(value), "model_dump")


def _chosen(value: Value, annotation: Hint) -> Value:
    """The annotation without Annotated, and of a union the member that the value belongs to."""
    if get_origin(annotation) is Annotated:
        return _chosen(value, get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next((each for each in get_args(annotation) if _belongs(value, each)), annotation)
    return annotation


def _belongs(value: Value, annotation: Hint) -> bool:
    kind = dict if is_typeddict(annotation) else get_origin(annotation) or annotation
    return _is_a(value, kind)


def _is_a(value: Value, kind: Value) -> bool:
    # Python 3.11 calls Any a type, but will not test for it
    return kind is not Any and isinstance(kind, type) and isinstance(value, kind)


def _dict_parts(part: ValuePart, annotation: Hint) -> Iterator[ValuePart]:
    hints = _hints(annotation) if is_typeddict(annotation) else {}
    default = (get_args(annotation) or (Any, Any))[-1]
    if not (hints or _holds(annotation, dict)):
        return
    noun = part.noun if part.path == "" or not hints else "field"
    for key, child in part.value.items():
        yield ValuePart(child, hints.get(key, default), member(part.path, key), noun)


def _list_parts(part: ValuePart, annotation: Hint) -> Iterator[ValuePart]:
    if not _holds(annotation, type(part.value)):
        return
    hints = get_args(annotation) or (Any,)
    several = len(hints) > 1 and hints[-1] is not ...
    for index, child in enumerate(part.value):
        hint = hints[index] if several and index < len(hints) else hints[0]
        yield ValuePart(child, hint, member(part.path, index), part.noun)


def _field_parts(part: ValuePart, annotation: type) -> Iterator[ValuePart]:
    hints = _hints(annotation)
    kind: Value = type(part.value)
    for name in field_names(kind) or ():
        if hasattr(part.value, name):
            yield ValuePart(getattr(part.value, name), hints.get(name, Any), member(part.path, name), "field")


def _holds(annotation: Hint, kind: type) -> bool:
    """True if the annotation allows a value of this kind, as far as can be seen."""
    origin = get_origin(annotation) or annotation
    return annotation in (Any, object) or (isinstance(origin, type) and issubclass(kind, origin))


def _hints(annotation: Hint) -> dict[str, Value]:
    try:
        hints = get_type_hints(annotation, include_extras=True)
    except Exception:  # whatever an annotation raises: the value is then blamed without them
        return {}
    return {name: get_args(hint)[0] if _is_qualified(hint) else hint for name, hint in hints.items()}


def _is_qualified(hint: Hint) -> bool:
    return getattr(get_origin(hint), "_name", None) in ("Required", "NotRequired", "ReadOnly")


class Refusal(NamedTuple):
    """A value that a codec refused, and all that is known about it."""

    title: str
    shape: Shape
    error: Exception | None
    value: Value
    annotation: Hint
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
    if not isinstance(refusal.shape, PlainShape):
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


def _advice(noun: str, value: Value) -> str:
    kind = type(value)
    instead = next((text for kinds, text in _INSTEAD if isinstance(value, kinds)), "a dict")
    if isinstance(value, str | int | float | list | dict) and not isinstance(value, Enum):
        return f"pass {instead}"  # no annotation brings back a subclass of these
    from msgspec.inspect import CustomType, type_info

    if isinstance(type_info(kind), CustomType) and not _is_model(value):
        return "pass plain values"  # an annotation would be refused in turn
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


def _key_advice(noun: str, key: Value) -> str:
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


def _not_equal(refusal: Refusal, sent: Value, back: Value) -> str:
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


def _has_kind(value: Value, annotation: Hint) -> bool:
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


def type_name(annotation: Hint) -> str:
    """An annotation as its author wrote it, without modules."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return re.sub(r"(?:[\w<>]+\.)+(?=\w)", "", repr(annotation))


def split(message: str, root: str = "payload") -> tuple[str, str]:
    """The path and the reason in what msgspec says, "Expected `int`, got `str` - at `$.age`"."""
    reason, found, where = message.partition(" - at `")
    suffix = where.rstrip("`")
    # msgspec says "key in $.tags" for a key of an object
    return (root + suffix[suffix.index("$") + 1 :] if found and "$" in suffix else root), reason
