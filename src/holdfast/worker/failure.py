"""An exception as the store keeps it."""

from __future__ import annotations

import traceback
from typing import Any

import msgspec

from ..core.job import ErrorRecord
from ..core.policy import Cause

MOST_TRACEBACK = 16_000
MOST_MESSAGE = 4_000
MOST_FIELDS = 8_000


def describe(error: BaseException, cause: Cause = Cause.FAILURE) -> ErrorRecord:
    """Return type, message, traceback (its end, where it is long) and the exception's own JSON fields."""
    trace = "".join(traceback.format_exception(error))
    return ErrorRecord(
        type=_name(type(error)),
        message=_clean(_text(error))[:MOST_MESSAGE],
        kind=cause,
        traceback=_clean(trace)[-MOST_TRACEBACK:],
        fields=_fields(error),
    )


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as worse:
        return f"no message: str() of it raised {type(worse).__name__}"


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _fields(error: BaseException) -> dict[str, Any]:
    fields = {}
    for name, value in vars(error).items():
        if name.startswith("_"):
            continue
        try:
            blob = msgspec.json.encode(value)
        except Exception:
            continue  # what cannot be written down is not part of the record
        if len(blob) <= MOST_FIELDS:
            fields[name] = msgspec.json.decode(blob)
    return fields
