"""Traces: W3C context in the headers of jobs, and spans by OpenTelemetry's messaging conventions.

Nothing here imports OpenTelemetry before a tracer provider is set. Without one, the context that a job brings is handed
on as text, to whatever its handler enqueues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from ...store.contract import Answer, Claimed, Lease, NewJob, Settlement, Store
from .relay import attach, attached, carried, carry, current_trace_id
from .stamp import Stamp
from .switch import configure, report, tracing
from .w3c import trace_id

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from .process_span import ProcessSpan as ProcessSpan
    from .spans import Tracing as Tracing

__all__ = [
    "Sending",
    "attach",
    "attached",
    "awaited",
    "carrier",
    "configure",
    "current_trace_id",
    "link_blockers",
    "onward",
    "process",
    "sending",
    "sent",
    "settling",
    "trace_id",
    "tracing",
]

MOST_BLOCKERS = 32
"""Blockers that a span is linked to at most."""
_NOTHING: AbstractContextManager[None] = nullcontext()


class Sending(Protocol):
    """Jobs on their way to a store, in one call or in many."""

    def stamp(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Return jobs of a queue with trace context in their headers."""

    def headers(self, queue: str) -> dict[str, str]:
        """Return trace context for jobs of a queue that other processes send."""

    def end(self, answers: Sequence[Answer] = (), count: int = 0) -> None:
        """The jobs are sent, and `count` more by other processes."""

    def fail(self, error: BaseException) -> None:
        """Sending them raised this error."""

    def drop(self) -> None:
        """They were not sent: another process was quicker."""


class _Relayed:
    """Jobs that get the context in which their sender runs, and no span."""

    def __init__(self, context: dict[str, str]) -> None:
        self._stamp = Stamp(context)

    def stamp(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        return self._stamp.jobs(jobs)

    def headers(self, queue: str) -> dict[str, str]:
        return self._stamp.context

    def end(self, answers: Sequence[Answer] = (), count: int = 0) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def drop(self) -> None: ...


def sending(expected: int | None = None) -> Sending | None:
    """Return how jobs get their context: those of one call, or of a bulk of at least so many. `None`: there is none."""
    if (found := tracing()) is not None:
        return found.send(expected)
    context = carried()
    return None if context is None else _Relayed(context)


@contextmanager
def sent(sending: Sending | None) -> Iterator[None]:
    """A block in which jobs are sent; an error that leaves it is theirs."""
    try:
        yield
    except BaseException as error:
        if sending is not None:
            sending.fail(error)
        raise


async def awaited(sending: Sending, answers: Awaitable[list[Answer]]) -> list[Answer]:
    """Return the answers to jobs that are sent once this is awaited."""
    with sent(sending):
        found = await answers
        sending.end(found)
    return found


def process(claimed: Claimed, made_by: Tracing | None) -> ProcessSpan | None:
    """Begin an attempt: the context of its job is current from here on. `None` where no span is recorded.

    `made_by` is what `tracing` returned, asked once for many jobs. Without it, no job without headers need come here.
    """
    if made_by is not None:
        try:
            return made_by.process(claimed)
        except Exception as error:
            report(error)
            return None
    if claimed.envelope.headers:
        carry(claimed.envelope.headers)
    return None


def settling(settlements: Sequence[Settlement]) -> AbstractContextManager[None]:
    """Return a block in which attempts are settled, with a span of its own when one of them was recorded."""
    found = tracing()
    if found is None or not found.unsettled:
        return _NOTHING
    try:
        span = found.settle(settlements)
    except Exception as error:
        report(error)
        return _NOTHING
    return _NOTHING if span is None else _ended(span)


@contextmanager
def _ended(span: Span) -> Iterator[None]:
    from opentelemetry.trace import use_span

    with use_span(span, end_on_exit=True):
        yield


def onward(envelope: bytes | None) -> bytes | None:
    """Return the envelope of a job that continues the current one: it is a child of the attempt before it."""
    context = carrier()
    return envelope if not context else Stamp(context).envelope(envelope)


def carrier() -> dict[str, str] | None:
    """Return the current context as text, for another process; `None` for none."""
    if tracing() is not None:
        from .remote import injected

        try:
            return injected() or carried()
        except Exception as error:
            report(error)
    return carried()


async def link_blockers(span: ProcessSpan, store: Store, lease: Lease) -> None:
    """Link the span of an attempt to the jobs that it waited for, as far as the store still has them."""
    refs = [each.ref for each in await store.blockers(lease.queue, lease.id, lease.run)][:MOST_BLOCKERS]
    for queue in dict.fromkeys(ref.queue for ref in refs):
        ids = [ref.id for ref in refs if ref.queue == queue]
        for record in await store.look_up(ids, queue):
            span.link_blocker((queue, record.id, record.run), record.headers)
