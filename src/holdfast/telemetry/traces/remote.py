"""OpenTelemetry's contexts from the headers of jobs, and back. Imported where OpenTelemetry is, and only there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from .w3c import BAGGAGE, PARENT, STATE, parsed

MOST_KNOWN = 256
NOTHING = Context()
_no_state = TraceState()
_common = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})").fullmatch
"""What nearly every `traceparent` looks like, found in a third of the time."""
_known: dict[str, Context] = {}
"""Contexts by `traceparent`: the jobs of one bulk have the same."""


def span_context(traceparent: object) -> SpanContext | None:
    """Return the span that a `traceparent` names; `None` for what is none."""
    found = _common(traceparent) if type(traceparent) is str else None
    if found is None:
        return _of_any_version(traceparent)
    trace_id, span_id, flags = found.groups()
    context = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)), _no_state)
    return context if context.is_valid else None


def _of_any_version(traceparent: object) -> SpanContext | None:
    found = parsed(traceparent)
    if found is None:
        return None
    return SpanContext(int(found.trace_id, 16), int(found.span_id, 16), True, TraceFlags(found.flags), _no_state)


class _Fields:
    """The headers that the propagator of the moment reads; it makes a set of them at every question."""

    def __init__(self) -> None:
        self._propagator: object = None
        self._names: Set[str] = frozenset()

    def names(self) -> Set[str]:
        """Return them."""
        propagator = propagate.get_global_textmap()
        if propagator is not self._propagator:
            self._propagator, self._names = propagator, frozenset(propagator.fields)
        return self._names


_fields = _Fields()


def extracted(headers: Mapping[str, str]) -> Context | None:
    """Return the context that a job's headers carry; `None` where they carry none that is valid."""
    fields = _fields.names()
    if PARENT in headers and PARENT in fields and STATE not in headers and BAGGAGE not in headers:
        return _of_traceparent(headers[PARENT])
    if fields.isdisjoint(headers):
        return None
    try:
        context = propagate.extract({**headers}, context=NOTHING)
    except Exception:  # whatever a propagator does with hostile text
        return None
    return context if context else None


def _of_traceparent(text: str) -> Context | None:
    if (known := _known.get(text)) is not None:
        return known
    if (found := span_context(text)) is None:
        return None
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    context = _known[text] = set_span_in_context(NonRecordingSpan(found), NOTHING)
    return context


def injected(context: Context | None = None) -> dict[str, str]:
    """Return what a job carries to be run in this context, by default the current one; nothing where no span is."""
    carrier: dict[str, str] = {}
    if get_current_span(context).get_span_context().is_valid:
        propagate.inject(carrier, context=context)
    return carrier
