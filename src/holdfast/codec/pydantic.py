"""Pydantic models through msgspec's hooks.

Pydantic is never imported here: a program that has a model has imported it already.
"""

from __future__ import annotations

import sys

import msgspec

from .plain import Value


def enc_hook(value: Value) -> Value:
    """The plain values of a pydantic model; TypeError for any other value."""
    if not _is_model(type(value)):
        raise TypeError(f"{type(value).__name__} is not a type that a codec knows")
    return value.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)


def dec_hook(annotation: Value, data: Value) -> Value:
    """The pydantic model of these plain values; `object` takes them as they are, and nothing else does."""
    if annotation is object:
        return data
    if not _is_model(annotation):
        raise TypeError(f"{getattr(annotation, '__name__', annotation)} is not a type that a codec knows")
    try:
        # by way of JSON, as a strict model takes the text of a date from JSON only
        return annotation.model_validate_json(msgspec.json.encode(data))
    except sys.modules["pydantic"].ValidationError as error:
        raise ValueError(_words(error)) from error


def _is_model(kind: Value) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _words(error: Value) -> str:
    """Each problem on one line, without the values and links that pydantic adds."""
    problems = error.errors(include_url=False, include_input=False)
    return "; ".join(": ".join([*_place(each["loc"]), each["msg"]]) for each in problems)


def _place(loc: tuple[int | str, ...]) -> list[str]:
    return [".".join(map(str, loc))] if loc else []
