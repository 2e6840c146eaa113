"""An exception as the store keeps it."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

import msgspec

from ..core.job import ErrorRecord
from ..core.policy import Cause

MOST_TRACEBACK = 16_000
MOST_MESSAGE = 4_000
MOST_FIELDS = 8_000
MOST_NAMES = 100


def describe(error: BaseException, cause: Cause = Cause.FAILURE, *, hint: str = "") -> ErrorRecord:
    """Return type, message (and a hint), traceback (its end, where it is long) and the exception's own JSON fields.

    Whatever the exception is like, there is a record of it: an attempt whose end cannot be told would never end.
    """
    try:
        if isinstance(record := getattr(error, "_record", None), ErrorRecord):
            return record  # it was raised, and described, in another process
        return _described(error, cause, hint)
    except Exception as worse:
        told = f"the exception could not be described: {type(worse).__name__}"
        return ErrorRecord(type=_clean(_name(type(error))), message=told, kind=cause)


def _described(error: BaseException, cause: Cause, hint: str) -> ErrorRecord:
    trace = "".join(traceback.format_exception(type(error), error, _of_handler(error)))
    return ErrorRecord(
        type=_clean(_name(type(error))),
        message=(_clean(_text(error))[:MOST_MESSAGE] + (f" ({hint})" if hint else "")).lstrip(),
        kind=cause,
        traceback=_clean(trace)[-MOST_TRACEBACK:],
        fields=_fields(error),
    )


def _name(kind: type[BaseException]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" or _is_ours(module) else f"{module}.{kind.__qualname__}"


def _is_ours(module: object) -> bool:
    return str(module).partition(".")[0] == "holdfast"


def _of_handler(error: BaseException) -> TracebackType | None:
    """Return the traceback from where the handler begins; the worker's own frames tell users nothing."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_globals.get("__name__")):
        trace = trace.tb_next
    return trace or error.__traceback__


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as worse:
        return f"no message: str() of it raised {type(worse).__name__}"


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _fields(error: BaseException) -> dict[str, Any]:
    fields = {}
    for name, value in list(vars(error).items())[:MOST_NAMES]:
        if not isinstance(name, str) or name.startswith("_") or _clean(name) != name:
            continue
        try:
            blob = msgspec.json.encode(value)
        except Exception:
            continue  # what cannot be written down is not part of the record
        if len(blob) <= MOST_FIELDS:
            fields[name] = msgspec.json.decode(blob)
    return fields
