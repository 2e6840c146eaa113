"""What a handler raised: the record that the store keeps, its kinds, and when it asks to be tried again."""

from __future__ import annotations

import traceback
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

import msgspec

from ..core.duration import LATEST_MS, instant_ms, to_ms
from ..core.job import ErrorRecord
from ..core.policy import Cause, class_name
from ..errors import ConfigError, Permanent, RetryAt

MOST_TRACEBACK = 16_000
MOST_MESSAGE = 4_000
MOST_FIELDS = 8_000
MOST_NAMES = 100
MOST_TYPE = 500


def describe(error: BaseException, cause: Cause = Cause.FAILURE, *, hint: str = "") -> ErrorRecord:
    """Return type, message (and a hint), traceback (its end, where it is long) and the exception's own JSON fields.

    Whatever the exception is like, there is a record of it: an attempt whose end cannot be told would never end.
    """
    try:
        if isinstance(record := getattr(error, "_record", None), ErrorRecord):
            # It was raised, and described, in another process, which cannot know every cause.
            return msgspec.structs.replace(record, kind=cause) if record.kind == Cause.FAILURE else record
        return _described(error, cause, hint)
    except Exception as worse:
        told = f"the exception could not be described: {type(worse).__name__}"
        return ErrorRecord(type=_clean(class_name(type(error))), message=told, kind=cause)


def kinds(error: BaseException) -> tuple[str, ...]:
    """Return the names of an exception's classes, its own first."""
    try:
        told: tuple[str, ...] = vars(error).get("_kinds", ())  # it was raised in another process
    except Exception:
        told = ()  # it does not show its fields
    return told or tuple(class_name(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException))


def is_permanent(error: BaseException) -> bool:
    """Return whether an exception says that no retry would help, by `kind = "permanent"` or `retryable = False`."""
    if isinstance(error, Permanent):
        return True
    try:
        return getattr(error, "kind", None) == "permanent" or getattr(error, "retryable", None) is False
    except Exception:
        return False  # a property that raises says nothing


def clipped(record: ErrorRecord) -> ErrorRecord:
    """Return a record that a process made, no larger than one that is made here: a sandbox may send anything."""
    names = [name for name, value in record.fields.items() if _is_small(name) and _is_small(value)][:MOST_NAMES]
    return ErrorRecord(
        type=record.type[:MOST_TYPE],
        message=record.message[: 2 * MOST_MESSAGE],
        kind=record.kind[:MOST_TYPE],
        traceback=record.traceback[-MOST_TRACEBACK:],
        fields={name: record.fields[name] for name in names},
    )


def _is_small(value: object) -> bool:
    return len(msgspec.json.encode(value)) <= MOST_FIELDS


def _described(error: BaseException, cause: Cause, hint: str) -> ErrorRecord:
    trace = "".join(traceback.format_exception(type(error), error, _of_handler(error)))
    return ErrorRecord(
        type=_clean(class_name(type(error))),
        message=(_clean(_text(error))[:MOST_MESSAGE] + (f" ({hint})" if hint else "")).lstrip(),
        kind=cause,
        traceback=_clean(trace)[-MOST_TRACEBACK:],
        fields=_fields(error),
    )


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
            plain = msgspec.json.decode(blob)
            msgspec.msgpack.encode(plain)  # as it leaves a process, which no number above 64 bits does
        except Exception:
            continue  # what cannot be written down is not part of the record
        if len(blob) <= MOST_FIELDS:
            fields[name] = plain
    return fields


class RetryTime(msgspec.Struct, frozen=True):
    """An instant or a wait, in milliseconds; where it is neither, the policy says when."""

    at_ms: int | None = None
    delay_ms: int | None = None

    def bounded(self) -> RetryTime:
        """Return it within what every store can keep: the past is the epoch, and no time is after the year 9999."""
        return RetryTime(_bounded(self.at_ms), _bounded(self.delay_ms))


def retry_time(error: BaseException) -> RetryTime:
    """Return when an exception asks to be tried again; whatever else its attributes hold asks for nothing.

    `RetryAt` is the handler's own word: one without a proper time raises `ConfigError`.
    """
    if isinstance(error, RetryAt):
        return _told(error).bounded()
    try:
        crossed = getattr(error, "_retry_time", None)  # it was raised in another process
        return (crossed if isinstance(crossed, RetryTime) else _asked(error)).bounded()
    except Exception:
        return RetryTime()  # a property that raises, or a value that is no time


def _told(error: RetryAt) -> RetryTime:
    if error.when is not None:
        return RetryTime(at_ms=instant_ms(error.when, "RetryAt(when)"))
    return RetryTime(delay_ms=to_ms(error.delay or 0, "RetryAt(delay)"))


def _asked(error: BaseException) -> RetryTime:
    at, after = getattr(error, "retry_at", None), getattr(error, "retry_after", None)
    if isinstance(at, int | float | datetime):
        with suppress(ConfigError):
            return RetryTime(at_ms=instant_ms(at))
    return RetryTime(delay_ms=to_ms(after)) if isinstance(after, int | float | timedelta) else RetryTime()


def _bounded(ms: int | None) -> int | None:
    return None if ms is None else min(max(int(ms), 0), LATEST_MS)
