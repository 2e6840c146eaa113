"""OpenTelemetry's contexts from the headers of jobs, and back. Imported where OpenTelemetry is, and only there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from opentelemetry import baggage, propagate
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from .w3c import BAGGAGE, FIELDS, PARENT, STATE, parsed

MOST_KNOWN = 256
NOTHING = Context()
_no_state = TraceState()
_common = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})").fullmatch
"""What nearly every `traceparent` looks like, found in a third of the time."""
_dropped = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][02468ace]").fullmatch
"""The same of a trace that is not sampled, and valid."""
_W3C = frozenset(FIELDS)
_propagator = propagate.get_global_textmap
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


class SentSpan(NonRecordingSpan):
    """The span that sent a job, read from its header when somebody asks: of most unsampled jobs nobody does."""

    def __init__(self, traceparent: str) -> None:
        self._traceparent = traceparent

    def get_span_context(self) -> SpanContext:
        read = self.__dict__.get("_read")
        if read is None:
            read = self._read = span_context(self._traceparent)
            assert read is not None, "its text was checked"
        return read

    def __repr__(self) -> str:
        return f"SentSpan({self._traceparent})"


_SPAN_KEY = next(iter(set_span_in_context(INVALID_SPAN, NOTHING)))
"""Under which OpenTelemetry keeps the span of a context: to make one by its functions takes three times as long."""


_latest: tuple[str | None, Context] = (None, NOTHING)
"""What `dropped` has found last, by its `traceparent`: the jobs of one bulk have the same."""


def dropped(headers: Mapping[str, str]) -> Context | None:
    """Return the context of a job whose trace is not sampled; `None` for any other, and where there is more to read."""
    global _latest
    text = headers.get(PARENT)
    if text is None or (len(headers) > 1 and (STATE in headers or BAGGAGE in headers)) or not _fields.has_parent():
        return None
    before, context = _latest
    if text != before:
        if _dropped(text) is None:
            return None
        context = Context({_SPAN_KEY: SentSpan(text)})
        _latest = text, context
    return context


class _Fields:
    """The headers that the propagator of the moment reads; it makes a set of them at every question."""

    def __init__(self) -> None:
        self._propagator: object = None
        self._names: Set[str] = frozenset()
        self._has_parent = self._is_w3c = False

    def names(self) -> Set[str]:
        """Return them."""
        propagator = _propagator()
        if propagator is not self._propagator:
            self._propagator, self._names = propagator, frozenset(propagator.fields)
            self._has_parent = PARENT in self._names
            self._is_w3c = self._has_parent and self._names <= _W3C
        return self._names

    def has_parent(self) -> bool:
        """Return whether `traceparent` is one of them."""
        if _propagator() is not self._propagator:
            self.names()
        return self._has_parent

    def is_w3c(self) -> bool:
        """Return whether `traceparent` is one of them, and all are of the W3C."""
        if _propagator() is not self._propagator:
            self.names()
        return self._is_w3c


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
    span = get_current_span(context).get_span_context()
    if not span.is_valid:
        return {}
    if (plain := _plain(span)) is not None and not baggage.get_all(context):
        return {PARENT: plain}
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context=context)
    return carrier


def injected_of(span: Span, around: Context) -> dict[str, str]:
    """Return what a job carries that this span sends, which was begun in this context."""
    context = span.get_span_context()
    if context.is_valid and not _has_more(around) and (plain := _plain(context)) is not None:
        return {PARENT: plain}
    return injected(set_span_in_context(span, around))


def _plain(span: SpanContext) -> str | None:
    """Return the `traceparent` of a span that needs no other header; `None` where the propagator has to be asked."""
    if span.trace_state or not _fields.is_w3c():
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _has_more(context: Context) -> bool:
    """Return whether there may be more in a context than a span."""
    return len(context) > (_SPAN_KEY in context)
