"""What a request asks for: the parameters of its address and its JSON, or a problem that says what is wrong."""

from __future__ import annotations

import typing
from functools import cache
from types import UnionType
from typing import TypeVar, get_args, get_origin

import msgspec
from starlette.requests import Request

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
        raise Problem(400, "bad-parameter", f"the address: {error}") from None


async def read_body(request: Request, kind: type[S]) -> S:
    """Return the JSON that a request brings; nothing at all is an empty object."""
    data = await request.body()
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if data and media != "application/json" and not media.endswith("+json"):
        raise Problem(415, "not-json", f"a body is JSON, with Content-Type: application/json, and not {media!r}")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        known = list(_is_list(kind))
        raise Problem(400, "bad-body", f"the body: {error}; known are {', '.join(known)}", known=known) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, "bad-body", f"the body is not JSON: {error}") from None


@cache
def _is_list(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """Return, by the name of each field, whether it may be given several times."""
    hints = typing.get_type_hints(kind)
    return {field.encode_name: _holds_list(hints[field.name]) for field in msgspec.structs.fields(kind)}


def _holds_list(hint: object) -> bool:
    origin = get_origin(hint)
    if origin in (UnionType, typing.Union):
        return any(_holds_list(each) for each in get_args(hint))
    return origin in (list, tuple)
