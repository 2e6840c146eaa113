"""What a request asks for: the parameters of its address and its JSON, or a problem that says what is wrong."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import UnionType
from typing import Literal, TypeVar, get_args, get_origin

import msgspec
from starlette.requests import Request

from ...json.decode import decode_json
from ..problem import Problem

S = TypeVar("S", bound=msgspec.Struct)


def read_query(request: Request, kind: type[S]) -> S:
    """Return the parameters of an address. An unknown one is no slip to be passed over: a filter would be missing."""
    known = _is_list(kind)
    given: dict[str, object] = dict(request.path_params)
    for name in request.query_params:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise Problem(
                400, "unknown-parameter", f"{name!r} is no parameter of this; known are {listed}", known=list(known)
            )
        values = request.query_params.getlist(name)
        if len(values) > 1 and not known[name]:
            raise Problem(400, "bad-parameter", f"{name!r} is given {len(values)} times: give it once")
        given[name] = values if known[name] else values[0]
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, "bad-parameter", f"the address: {error}{_choices(kind, str(error))}") from None


async def read_body(request: Request, kind: type[S]) -> S:
    """Return the JSON that a request brings; nothing at all is an empty object."""
    data = await request.body()
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if data and media != "application/json" and not media.endswith("+json"):
        raise Problem(415, "not-json", f"a body is JSON, with Content-Type: application/json, and not {media!r}")
    try:
        return decode_json(data or b"{}", kind)
    except msgspec.ValidationError as error:
        known = list(_is_list(kind))
        words = f"the body: {error}{_choices(kind, str(error))}; known are {', '.join(known)}"
        raise Problem(400, "bad-body", words, known=known) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, "bad-body", f"the body is not JSON: {error}") from None


@cache
def _is_list(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """Return, by the name of each field, whether it may be given several times."""
    hints = typing.get_type_hints(kind)
    return {field.encode_name: _holds_list(hints[field.name]) for field in msgspec.structs.fields(kind)}


_WRONG_WORD = re.compile(r"Invalid enum value .* - at `\$(.*)`", re.DOTALL)


def _choices(kind: type[msgspec.Struct], error: str) -> str:
    """Return, for an error that is about a word, the words that its field can have."""
    found = _WRONG_WORD.fullmatch(error)
    if found is None:
        return ""
    hint: object = kind
    for name in re.findall(r"\.(\w+)", found[1]):
        structs = (part for part in _parts(hint) if isinstance(part, type) and issubclass(part, msgspec.Struct))
        hint = next((hints[name] for hints in map(typing.get_type_hints, structs) if name in hints), None)
    words = [word for part in _parts(hint) for word in _words(part)]
    return f"; it can be {', '.join(words)}" if words else ""


def _parts(hint: object) -> Iterator[object]:
    """Yield the types that a union, or a list of them, is made of."""
    if get_origin(hint) in (UnionType, typing.Union, list, tuple):
        for each in get_args(hint):
            yield from _parts(each)
    else:
        yield hint


def _words(hint: object) -> list[str]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(each.value) for each in hint]
    return [str(each) for each in get_args(hint)] if get_origin(hint) is Literal else []


def _holds_list(hint: object) -> bool:
    origin = get_origin(hint)
    if origin in (UnionType, typing.Union):
        return any(_holds_list(each) for each in get_args(hint))
    return origin in (list, tuple)
