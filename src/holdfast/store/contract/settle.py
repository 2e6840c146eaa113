"""What a worker holds, and how each attempt may end."""

from __future__ import annotations

import msgspec

from ...core.chain import ChainRef
from ...core.envelope import EMPTY, Envelope
from ...core.job import ErrorRecord
from ...core.policy import Cause, Counters, Overrides
from ...core.state import State
from ...core.transition import Reply
from .produce import NewJob


class Lease(msgspec.Struct, frozen=True, gc=False):  # one a job, as those below: nothing in it refers back
    """The token of one attempt: no other attempt has the same run and attempt."""

    queue: str
    id: str
    run: int
    attempt: int


class Claimed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that was given to a worker."""

    lease: Lease
    task: str | None
    payload: bytes
    priority: int
    key: str | None
    run_at_ms: int
    enqueued_at_ms: int
    claimed_at_ms: int
    counters: Counters
    envelope: Envelope = EMPTY
    overrides: Overrides | None = None
    last_error: ErrorRecord | None = None
    checkpoint: bytes | None = None
    timeout_ms: int | None = None
    """How long its handler may run, by policy and overrides as they stand at the claim."""
    chain: ChainRef | None = None
    """The first job of its chain; `None` for a job that continues no other."""
    position: int = 0
    snoozes: int = 0
    """How often its handler asked to run later."""
    spared: int = 0
    """How many of its attempts do not count: their worker or their store failed, or an update reset the counts."""
    company: int | None = None
    """Of a suspect: at most so many jobs, itself included, may its worker hold while it runs."""


class Continuation(msgspec.Struct, frozen=True):
    """The next job of a chain. Its id is made by `continuation_id`; dedup and watcher are not for it."""

    queue: str
    job: NewJob


class Complete(msgspec.Struct, frozen=True, gc=False, tag="complete"):
    """The handler returned."""

    lease: Lease
    result: bytes
    result_ttl_ms: int | None = None
    then: Continuation | None = None
    """The chain goes on with this job, in the same step; `result` does not count then."""


class Retried(msgspec.Struct, frozen=True, tag="retry"):
    """The handler raised or ran out of time; at the cause's limit the store fails the job instead.

    It comes back after its policy's wait, or at a time that the error itself brought: an instant, or a delay.
    """

    lease: Lease
    error: ErrorRecord
    cause: Cause = Cause.FAILURE
    run_at_ms: int | None = None
    delay_ms: int | None = None


class Failed(msgspec.Struct, frozen=True, tag="fail"):
    """The job is to fail for good."""

    lease: Lease
    error: ErrorRecord
    cause: Cause = Cause.PERMANENT
    result_ttl_ms: int | None = None


class Snoozed(msgspec.Struct, frozen=True, tag="snooze"):
    """The handler asked to run again at an exact time."""

    lease: Lease
    run_at_ms: int | None = None
    delay_ms: int | None = None


class Released(msgspec.Struct, frozen=True, tag="release"):
    """The worker hands the job back, unfinished: a release; a stall, when the process that ran it died; or, when the
    trouble is the worker's own, free of charge (`Cause.WORKER`)."""

    lease: Lease
    delay_ms: int = 0
    error: ErrorRecord | None = None
    cause: Cause = Cause.RELEASE
    company: int = 1
    """Of a stall: how many jobs, itself included, ran in the process that died."""


Settlement = Complete | Retried | Failed | Snoozed | Released
TRANSITION_OF = {kind: str(kind.__struct_config__.tag) for kind in (Complete, Retried, Failed, Snoozed, Released)}
"""The transition that each settlement asks for, by its name in the table."""


class Settled(msgspec.Struct, frozen=True):
    """What became of one settlement. `state` is the state afterwards, when the reply is `ok`."""

    reply: Reply
    state: State | None = None
