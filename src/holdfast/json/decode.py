"""JSON that people and programs send."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def decode_json(data: bytes | str, kind: type[T] | Any = Any) -> T | Any:
    """Return what a JSON text says. Raise `msgspec.DecodeError` also for one that is nested too deeply to be read."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
