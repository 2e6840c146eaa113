"""What happened: one event for each transition, and for each action that is none."""

from __future__ import annotations

import re

import msgspec

from .envelope import EMPTY, Envelope
from .policy import Counters
from .state import State

_BEFORE_END = re.compile(r"end(?:-([0-9]{1,9}))?").fullmatch


def before_end(position: str | None) -> int | None:
    """Return how many events before the end of the log a position is: `end-1000`; `None` for any other position."""
    found = None if position is None else _BEFORE_END(position)
    return None if found is None else int(found[1] or 0)


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transition of one run, as the log keeps it. `state` is the state afterwards, `None` when gone.

    With the transition `operate` it is an action of an operator on the queue, or on what is named: `cause` says which.
    It is of no run then, and `state` says nothing.
    """

    position: str
    at_ms: int
    queue: str
    id: str
    run: int
    attempt: int
    transition: str
    state: State | None
    cause: str | None = None
    task: str | None = None
    worker: str | None = None
    key: str | None = None
    priority: int = 0
    run_at_ms: int | None = None
    counters: Counters = Counters()
    wait_ms: int | None = None
    """From the time it could have run to its claim; set by `claim`."""
    run_ms: int | None = None
    """From its claim to the end of the attempt; set by whatever ends an attempt."""
    error_type: str | None = None
    error_signature: str | None = None
    progress: float | None = None
    """How far the handler said that it is; set by `progress`."""
    message: str | None = None
    """What the handler said of its progress; set by `progress`. Of an action: what was changed, as JSON."""
    payload: bytes | None = None
    """Kept only by queues with `history="payloads"`."""
    envelope: Envelope = EMPTY
    """What the job carries; set by `enqueue`, `update` and `requeue`."""
    actor: str | None = None
    """Who asked for it, if they said so."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the job; empty for transitions that do not set them."""
        return self.envelope.tags
