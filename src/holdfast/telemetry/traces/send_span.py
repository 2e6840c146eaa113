"""The span that sends jobs, and how their headers get its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry.context import get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span

from ...store.contract import Answer, NewJob
from . import names
from .relay import carried
from .remote import extracted, injected_of, span_context
from .stamp import Stamp
from .switch import report

if TYPE_CHECKING:
    from .spans import Tracing

MOST_LINKS = 32
"""Links that a span has at most."""


class SendSpan:
    """The span of one enqueue, or of one bulk, however many calls of the store that takes."""

    __slots__ = ("_count", "_expected", "_id", "_queues", "_span", "_stamp", "_tracing")

    def __init__(self, tracing: Tracing, expected: int | None) -> None:
        self._tracing = tracing
        self._expected = expected
        self._span: Span | None = None
        self._stamp: Stamp | None = None
        self._queues: set[str] = set()
        self._count = 0
        self._id = ""

    def stamp(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Return jobs of a queue with the context of this span in their headers. The first call starts it."""
        if not jobs:
            return jobs
        self._id = self._id or jobs[0].id
        self._count += len(jobs)
        try:
            return self._begun(queue).jobs(jobs, max(self._expected or 0, self._count))
        except Exception as error:
            report(error)
            return jobs

    def headers(self, queue: str) -> dict[str, str]:
        """Return the context of this span, for jobs of a queue that other processes send."""
        try:
            return self._begun(queue).context
        except Exception as error:
            report(error)
            return {}

    def _begun(self, queue: str) -> Stamp:
        self._queues.add(queue)
        if self._span is None or self._stamp is None:
            self._span, self._stamp = self._start(queue)
        return self._stamp

    def _start(self, queue: str) -> tuple[Span, Stamp]:
        around, before = get_current(), carried()
        if before is not None and not get_current_span(around).get_span_context().is_valid:
            around = extracted(before) or around
        span = self._tracing.start(names.SEND, queue, SpanKind.PRODUCER, around, whole=self._expected is None)
        return span, Stamp(injected_of(span, around))

    def end(self, answers: Sequence[Answer] = (), count: int = 0) -> None:
        """End the span; the answer to a single job says what became of it. `count`: how many others sent for it."""
        span, self._span = self._span, None
        self._count += count
        if span is None:
            return
        try:
            if span.is_recording():
                self._describe(span, answers)
            span.end()
        except Exception as error:
            report(error)

    def _describe(self, span: Span, answers: Sequence[Answer]) -> None:
        if self._count > 1 or not self._id:
            span.set_attribute(names.BATCH_COUNT, self._count)
        else:
            span.set_attribute(names.MESSAGE_ID, self._id)
            if len(answers) == 1:
                span.set_attributes({names.RUN: answers[0].run, names.STATUS: answers[0].status})
        if len(self._queues) == 1:
            span.set_attribute(names.DESTINATION, *self._queues)
        else:
            span.update_name(names.SEND)
        for text in [] if self._stamp is None else list(self._stamp.kept.values())[:MOST_LINKS]:
            if (context := span_context(text)) is not None:
                span.add_link(context)

    def fail(self, error: BaseException) -> None:
        """End the span with an error: what became of the jobs is not known."""
        if self._span is not None:
            self._span.record_exception(error)
            self._span.set_status(StatusCode.ERROR, str(error))
            self._span.set_attribute(names.ERROR_TYPE, type(error).__qualname__)
            self.end()

    def drop(self) -> None:
        """Leave the span unended, so that nobody hears of it: another process sent the jobs first."""
        self._span = None
