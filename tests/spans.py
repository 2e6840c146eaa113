"""Spans that were recorded, as tests look at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanContext

from holdfast.telemetry import traces


class Recorder:
    """A tracer provider that records in memory, and what it has recorded."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    @property
    def ended(self) -> list[ReadableSpan]:
        """Every span that has ended, in that order."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of this name."""
        return [span for span in self.ended if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of this name."""
        (span,) = self.named(name)
        return span

    def of(self, task: str, attempt: int = 1) -> ReadableSpan:
        """Return the span of the only attempt of a task with this number."""
        (span,) = (
            each for each in self.ended
            if attribute(each, "holdfast.task") == task and attribute(each, "holdfast.attempt") == attempt
        )  # fmt: skip
        return span


def attribute(span: ReadableSpan, name: str) -> Any:
    """Return an attribute of a span, `None` for one that it does not have."""
    return (span.attributes or {}).get(name)


def context(span: ReadableSpan) -> SpanContext:
    """Return the context of a span, which every span has that was recorded."""
    found = span.get_span_context()
    assert found is not None
    return found


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    """Return whether a span is a child of another, in the same trace."""
    parent, trace = context(of), context(span).trace_id
    return span.parent is not None and (span.parent.span_id, trace) == (parent.span_id, parent.trace_id)


def links(span: ReadableSpan, to: ReadableSpan, kind: str | None = None) -> bool:
    """Return whether a span has a link of this kind to another."""
    return any(
        link.context.span_id == context(to).span_id and (link.attributes or {}).get("holdfast.link") == kind
        for link in span.links
    )


@contextmanager
def recording(sampler: Sampler | None = None, **settings: Any) -> Iterator[Recorder]:
    """Record the spans of a block."""
    recorder = Recorder(sampler)
    traces.configure(tracer_provider=recorder.provider, **settings)
    try:
        yield recorder
    finally:
        traces.configure()
        recorder.provider.shutdown()
