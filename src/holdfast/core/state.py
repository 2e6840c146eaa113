"""The seven states of a job."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a run stands in its life."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    WAITING = "waiting"
    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        """True when the run is over."""
        return self in FINISHED


MEANING = {
    State.BLOCKED: "waits for its blockers to complete",
    State.SCHEDULED: "waits for its `run_at`",
    State.WAITING: "may be claimed as soon as the limits allow",
    State.ACTIVE: "held by one worker under a lease",
    State.COMPLETED: "over; its result is kept for its TTL",
    State.FAILED: "over; kept as a dead letter, to be inspected and requeued",
    State.CANCELLED: "over; its id is free at once",
}

LETTER = {
    State.BLOCKED: "b",
    State.SCHEDULED: "s",
    State.WAITING: "w",
    State.ACTIVE: "a",
    State.COMPLETED: "c",
    State.FAILED: "f",
    State.CANCELLED: "x",
}
"""The letter of each state in records that are counted in bytes. No two states have the same."""

PENDING = frozenset({State.BLOCKED, State.SCHEDULED, State.WAITING})
FINISHED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
UNFINISHED = PENDING | {State.ACTIVE}
EVERY = PENDING | {State.ACTIVE} | FINISHED
