"""As what an event counts."""

from __future__ import annotations

from ...core.event import Event

COUNTED = (
    "enqueued", "started", "completed", "failed", "retried", "stalled", "cancelled", "released", "snoozed", "requeued",
)  # fmt: skip
"""The counts of a stretch of time, in the order in which they are kept."""
_BY_TRANSITION = {
    "enqueue": 0,
    "claim": 1,
    "complete": 2,
    "fail": 3,
    "retry": 4,
    "reap": 5,
    "cancel": 6,
    "release": 7,
    "snooze": 8,
    "requeue": 9,
}
REQUEUED = COUNTED.index("requeued")
_STALLED = COUNTED.index("stalled")


def kind_of(event: Event) -> int | None:
    """Return the index in `COUNTED` of what an event counts as; `None` for those that count as nothing.

    A release because the process of a handler died is a stall; a cancel of a successor ends no run.
    """
    kind = _BY_TRANSITION.get(event.transition)
    if event.cause is None or kind is None:
        return kind
    if event.cause == "stall" and event.transition == "release":
        return _STALLED
    return None if event.cause == "successor" and event.transition == "cancel" else kind
