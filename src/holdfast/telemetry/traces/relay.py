"""The trace context that a handler's job brought, for what the handler enqueues, where no spans are made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from .w3c import context_of, parsed

_carried: ContextVar[dict[str, str] | None] = ContextVar("holdfast_trace", default=None)


def carry(headers: Mapping[str, str]) -> None:
    """Hand the context of these headers on to whatever is enqueued from here, if they have one."""
    if headers and (context := context_of(headers)) is not None:
        _carried.set(context)


carried = _carried.get
"""Returns the context that is handed on here."""


def attach(headers: Mapping[str, str]) -> None:
    """Make the context of these headers the current one, here and for OpenTelemetry, if that is in use."""
    carry(headers)
    if headers and "opentelemetry.trace" in sys.modules:
        try:
            from opentelemetry.context import attach as make_current

            from .remote import extracted

            if (context := extracted(headers)) is not None:
                make_current(context)
        except Exception:  # a sandbox may lack what this imports, and its handler is to run all the same
            pass


@contextmanager
def attached(headers: Mapping[str, str]) -> Iterator[None]:
    """A block in which the context of these headers is the current one, unless there is one already."""
    context = context_of(headers) if current_trace_id() is None else None
    if context is None:
        yield
        return
    kept = _carried.set(context)
    try:
        with _attached_to_opentelemetry(context):
            yield
    finally:
        _carried.reset(kept)


@contextmanager
def _attached_to_opentelemetry(headers: Mapping[str, str]) -> Iterator[None]:
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry.context import attach, detach

    from .remote import extracted

    context = extracted(headers)
    token = None if context is None else attach(context)
    try:
        yield
    finally:
        if token is not None:
            detach(token)


def current_trace_id() -> str | None:
    """Return the trace that this code runs in, as 32 hexadecimal digits; `None` for none."""
    if (api := sys.modules.get("opentelemetry.trace")) is not None and hasattr(api, "get_current_span"):
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            return f"{context.trace_id:032x}"
    carried = _carried.get()
    found = None if carried is None else parsed(carried["traceparent"])
    return None if found is None else found.trace_id
