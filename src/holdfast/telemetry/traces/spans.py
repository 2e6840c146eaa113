"""The spans of one tracer provider: what sends jobs, what runs them, and what settles them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Span, SpanContext, SpanKind, TracerProvider, get_current_span, set_span_in_context
from opentelemetry.util.types import AttributeValue

from ...store.contract import Claimed, Lease, Settlement
from . import names
from .process_span import ProcessSpan
from .remote import NOTHING, dropped, extracted
from .send_span import MOST_LINKS, SendSpan
from .switch import TraceSettings

MOST_RECENT = 1000
"""Recorded attempts that are remembered, for links to them."""
MOST_QUEUES = 1000
MOST_IN_CHAIN = 1000
"""Jobs of a chain in one trace: a chain may be endless, so the next one begins another, linked to the one before."""
FOLLOWS = "remoteParentNotSampled:AlwaysOffSampler"
Run = tuple[str, str, int]
"""The queue, the id and the run of a job."""


class Tracing:
    """Make the spans of Holdfast with one tracer provider."""

    def __init__(self, provider: TracerProvider, settings: TraceSettings) -> None:
        self._tracer = provider.get_tracer("holdfast", schema_url=names.SCHEMA_URL)
        self._settings = settings
        self.unsettled: dict[Lease, SpanContext] = {}
        """Recorded attempts that have ended and are not settled, by lease."""
        self.recent: OrderedDict[Run, SpanContext] = OrderedDict()
        """Spans of the latest attempts that were recorded here, for links from jobs that came of them."""
        self._known: dict[tuple[str, str, bool], tuple[str, dict[str, AttributeValue]]] = {}
        sampler = getattr(provider, "sampler", None)
        described = str(sampler.get_description()) if sampler is not None else ""
        self._follows = described.startswith("ParentBased{") and FOLLOWS in described
        """The sampler drops whatever comes of a span that was dropped, so that it need not be asked."""

    def start(self, operation: str, queue: str, kind: SpanKind, context: Context, *, whole: bool = True) -> Span:
        """Return a new span, with the attributes by which samplers may decide; `whole`: it is for this queue alone."""
        known = self._known.get((operation, queue, whole))
        if known is None:
            if len(self._known) >= MOST_QUEUES:
                self._known.clear()
            known = self._known[operation, queue, whole] = _named(operation, queue, whole)
        return self._tracer.start_span(known[0], context, kind, known[1])

    def send(self, expected: int | None) -> SendSpan:
        """Return the span of jobs that are about to be sent: of one enqueue, or of a bulk of at least so many."""
        return SendSpan(self, expected)

    def process(self, claimed: Claimed) -> ProcessSpan | None:
        """Begin an attempt: its context is current from here on. `None` where nothing of it is recorded."""
        envelope, parent, position = claimed.envelope, NOTHING, claimed.position
        goes_on = position == 0 or position % MOST_IN_CHAIN
        if self._follows and goes_on and (context := dropped(envelope.headers)) is not None:
            attach(context)
            return None
        sent = extracted(envelope.headers) if envelope.headers else None
        if sent is not None and goes_on:
            before = get_current_span(sent).get_span_context()
            if self._follows and before.is_valid and not before.trace_flags.sampled:
                attach(sent)
                return None
            if envelope.batch <= self._settings.parent_up_to:
                parent = sent
        span = self.start(names.PROCESS, claimed.lease.queue, SpanKind.CONSUMER, parent)
        around = get_current()
        attach(set_span_in_context(span, sent or NOTHING))
        return ProcessSpan(self, span, claimed, sent, around) if span.is_recording() else None

    def settle(self, settlements: Sequence[Settlement]) -> Span | None:
        """Return the span of a call that settles attempts, linked to those that were recorded; `None` for none."""
        unsettled = self.unsettled
        recorded = [(each.lease, unsettled.pop(each.lease)) for each in settlements if each.lease in unsettled]
        if not recorded:
            return None
        queues = {each.lease.queue for each in settlements}
        span = self.start(names.SETTLE, queues.pop() if len(queues) == 1 else "", SpanKind.CLIENT, NOTHING)
        if span.is_recording():
            if len(settlements) > 1:
                span.set_attribute(names.BATCH_COUNT, len(settlements))
            for lease, context in recorded[:MOST_LINKS]:
                span.add_link(context, {names.MESSAGE_ID: lease.id})
        return span

    def remember(self, lease: Lease, context: SpanContext, settled: bool) -> None:
        """Keep where an attempt was recorded, for the spans that link to it."""
        self.recent[lease.queue, lease.id, lease.run] = context
        if len(self.recent) > MOST_RECENT:
            self.recent.popitem(last=False)
        if not settled and self._settings.settle:
            if len(self.unsettled) >= MOST_RECENT:  # of workers that were declared dead, which settle nothing
                self.unsettled.clear()
            self.unsettled[lease] = context


def _named(operation: str, queue: str, whole: bool) -> tuple[str, dict[str, AttributeValue]]:
    attributes: dict[str, AttributeValue] = {
        names.MESSAGING_SYSTEM: names.SYSTEM, names.OPERATION_NAME: operation, names.OPERATION_TYPE: operation,
    }  # fmt: skip
    if queue and whole:
        attributes[names.DESTINATION] = queue
    return f"{operation} {queue}".rstrip(), attributes
