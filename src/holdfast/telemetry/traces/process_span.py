"""The span of an attempt: its attributes, its links, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, StatusCode, get_current_span
from opentelemetry.util.types import Attributes, AttributeValue

from ...core.job import ErrorRecord
from ...store.contract import TRANSITION_OF, Claimed, Settlement
from . import names
from .remote import span_context
from .switch import report
from .w3c import PARENT

if TYPE_CHECKING:
    from .spans import Run, Tracing

SCHEDULE_HEADER = "holdfast-schedule"


class ProcessSpan:
    """The span of one attempt that is recorded."""

    __slots__ = ("_claimed", "_span", "_tracing", "waits")

    def __init__(self, tracing: Tracing, span: Span, claimed: Claimed, sent: Context | None, around: Context) -> None:
        self._tracing = tracing
        self._span = span
        self._claimed = claimed
        self.waits = claimed.envelope.blockers > 0
        """The job had blockers, to which the span is still to be linked."""
        span.set_attributes(_attributes(claimed))
        if sent is not None:
            self._link(get_current_span(sent).get_span_context())
        self._link(get_current_span(around).get_span_context(), {names.LINK: "worker"})
        if (failed := claimed.envelope.failed) is not None:
            self._link_failed(failed)

    def _link(self, context: SpanContext | None, attributes: Attributes = None) -> None:
        if context is not None and context.is_valid:
            self._span.add_link(context, attributes)

    def _link_failed(self, failed: dict[str, object]) -> None:
        queue, id, run = failed.get("queue"), failed.get("id"), failed.get("run")
        if isinstance(queue, str) and isinstance(id, str) and isinstance(run, int):
            context = self._tracing.recent.get((queue, id, run))
            self._link(context, {names.LINK: "failed", names.MESSAGE_ID: id})

    def link_blocker(self, run: Run, headers: dict[str, str]) -> None:
        """Link a job that this one waited for: its latest attempt, if that was recorded here, else what sent it."""
        context = self._tracing.recent.get(run) or span_context(headers.get(PARENT))
        self._link(context, {names.LINK: "blocker", names.MESSAGE_ID: run[1]})

    def end(self, settlement: Settlement | None, reason: str | None, *, settled: bool) -> None:
        """End the attempt, which is settled so; `None` where nothing of it counts, for this reason."""
        try:
            self._end(settlement, reason, settled)
        except Exception as error:
            report(error)

    def _end(self, settlement: Settlement | None, reason: str | None, settled: bool) -> None:
        span = self._span
        error: ErrorRecord | None = getattr(settlement, "error", None)
        outcome = "lost" if settlement is None else TRANSITION_OF[type(settlement)]
        span.set_attribute(names.OUTCOME, outcome)
        if error is not None:
            _record(span, error)
        elif settlement is None:
            span.set_attribute(names.ERROR_TYPE, reason or outcome)
            span.set_status(StatusCode.ERROR, reason)
        span.end()
        self._tracing.remember(self._claimed.lease, span.get_span_context(), settled or settlement is None)


def _attributes(claimed: Claimed) -> dict[str, AttributeValue]:
    lease, due_ms = claimed.lease, max(claimed.run_at_ms, claimed.enqueued_at_ms)
    attributes: dict[str, AttributeValue] = {
        names.MESSAGE_ID: lease.id, names.RUN: lease.run, names.ATTEMPT: lease.attempt,
        names.WAITED: max(0, claimed.claimed_at_ms - due_ms) / 1000,
    }  # fmt: skip
    if claimed.task is not None:
        attributes[names.TASK] = claimed.task
    if (schedule := claimed.envelope.headers.get(SCHEDULE_HEADER)) is not None:
        attributes[names.SCHEDULE] = schedule
    return attributes


def _record(span: Span, error: ErrorRecord) -> None:
    """Record the error of an attempt, which may have been raised in another process."""
    span.set_attribute(names.ERROR_TYPE, error.type)
    span.set_status(StatusCode.ERROR, f"{error.type}: {error.message}")
    what = {names.EXCEPTION_TYPE: error.type, names.EXCEPTION_MESSAGE: error.message}
    span.add_event(names.EXCEPTION, {**what, names.EXCEPTION_STACKTRACE: error.traceback})
