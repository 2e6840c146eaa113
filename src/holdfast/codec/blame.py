"""Which part of a refused value is to blame, and what to do about it.

This runs after a refusal only, so it may take its time: it tries the parts one by one, and goes down into
the first that is refused by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ..errors import PayloadError
from . import path as paths
from .plain import MAX_DEPTH
from .same import field_names
from .shape import Shape
from .words import Refusal, deep, words


class Shapes(Protocol):
    """A codec, as far as blame needs it."""

    title: str

    def shape(self, annotation: Any) -> Shape:
        """The shape of an annotation."""


class Part(NamedTuple):
    """A value, its annotation, where it is, and what carries the annotation."""

    value: Any
    annotation: Any
    path: str
    noun: str


def blame(codec: Shapes, value: Any, annotation: Any, path: str) -> PayloadError:
    """The error for a refused value, with the path of the smallest part that is refused by itself."""
    part = Part(value, annotation, path, "return value" if path == "result" else "parameter")
    argument, above = part, set[int]()
    while id(part.value) not in above:
        if len(above) > MAX_DEPTH:  # whatever is wrong further down, nobody walks a hundred thousand levels to tell it
            return PayloadError(f"{argument.path or 'payload'} {deep()}", path=argument.path)
        above.add(id(part.value))
        worse = next((below for below in parts(part) if _refusal(codec, below)), None)
        if worse is None:
            return _error(codec, part)
        part = worse
        argument = argument if argument.path else part
    return PayloadError(f"{part.path} contains itself: pass a value without cycles", path=part.path)


def _refusal(codec: Shapes, part: Part) -> Exception | None:
    try:
        codec.shape(part.annotation).encode(part.value)
    except Exception as error:
        return error
    return None


def _error(codec: Shapes, part: Part) -> PayloadError:
    error = _refusal(codec, part)
    refusal = Refusal(codec.title, codec.shape(part.annotation), error, *part)
    path, message = words(refusal)
    return PayloadError(f"{path or 'payload'} {message}", path=path)


def parts(part: Part) -> Iterator[Part]:
    """The parts of a value that has the type its annotation asks for; nothing for other values."""
    value, annotation = part.value, _chosen(part.value, part.annotation)
    if isinstance(value, dict):
        yield from _dict_parts(part, annotation)
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        yield from _list_parts(part, annotation)
    elif _is_a(value, annotation) and not _is_model(value):
        yield from _field_parts(part, annotation)


def _is_model(value: Any) -> bool:
    # pydantic judges its fields by its own rules, not by msgspec's
    return hasattr(type(value), "model_dump")


def _chosen(value: Any, annotation: Any) -> Any:
    """The annotation without Annotated, and of a union the member that the value belongs to."""
    if get_origin(annotation) is Annotated:
        return _chosen(value, get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next((each for each in get_args(annotation) if _belongs(value, each)), annotation)
    return annotation


def _belongs(value: Any, annotation: Any) -> bool:
    kind = dict if is_typeddict(annotation) else get_origin(annotation) or annotation
    return _is_a(value, kind)


def _is_a(value: Any, kind: Any) -> bool:
    # Python 3.11 calls Any a type, but will not test for it
    return kind is not Any and isinstance(kind, type) and isinstance(value, kind)


def _dict_parts(part: Part, annotation: Any) -> Iterator[Part]:
    hints = _hints(annotation) if is_typeddict(annotation) else {}
    default = (get_args(annotation) or (Any, Any))[-1]
    if not (hints or _holds(annotation, dict)):
        return
    noun = part.noun if part.path == "" or not hints else "field"
    for key, child in part.value.items():
        yield Part(child, hints.get(key, default), paths.member(part.path, key), noun)


def _list_parts(part: Part, annotation: Any) -> Iterator[Part]:
    if not _holds(annotation, type(part.value)):
        return
    hints = get_args(annotation) or (Any,)
    several = len(hints) > 1 and hints[-1] is not ...
    for index, child in enumerate(part.value):
        hint = hints[index] if several and index < len(hints) else hints[0]
        yield Part(child, hint, paths.member(part.path, index), part.noun)


def _field_parts(part: Part, annotation: type) -> Iterator[Part]:
    hints = _hints(annotation)
    kind: Any = type(part.value)
    for name in field_names(kind) or ():
        if hasattr(part.value, name):
            yield Part(getattr(part.value, name), hints.get(name, Any), paths.member(part.path, name), "field")


def _holds(annotation: Any, kind: type) -> bool:
    """True if the annotation allows a value of this kind, as far as can be seen."""
    origin = get_origin(annotation) or annotation
    return annotation in (Any, object) or (isinstance(origin, type) and issubclass(kind, origin))


def _hints(annotation: Any) -> dict[str, Any]:
    try:
        hints = get_type_hints(annotation, include_extras=True)
    except Exception:  # whatever an annotation raises: the value is then blamed without them
        return {}
    return {name: get_args(hint)[0] if _is_qualified(hint) else hint for name, hint in hints.items()}


def _is_qualified(hint: Any) -> bool:
    return getattr(get_origin(hint), "_name", None) in ("Required", "NotRequired", "ReadOnly")
