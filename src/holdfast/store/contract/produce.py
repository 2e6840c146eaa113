"""What producers ask for, and what they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from ...core.bound import CANCELLED_AT_ONCE
from ...core.chain import BlockerRef, ChainRef, OnBlockerFailed
from ...core.job import ErrorRecord
from ...core.policy import Overrides
from ...core.state import State
from ...core.transition import Reply

OnConflict = Literal["keep", "update"]
OnFailed = Literal["keep", "requeue"]
UpdateRunAt = Literal["always", "never", "if_later", "if_earlier"]
Running = Literal["refuse", "signal", "kill"]
Abort = Literal[
    "cancelled", "timeout", "lease_lost", "store_lost", "completed_elsewhere", "deleted", "shutdown", "killed"
]
"""Why a handler must stop. Handlers hear all but `killed`: by that a store tells a worker of a cancel with
`running="kill"`, and the handler hears `cancelled`."""
Status = Literal["queued", "duplicate", "completed", "updated", "successor", "requeued", "refused"]


class DedupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A key under which at most one job is taken in, whatever its id."""

    key: str
    scope: Literal["incomplete", "any"] = "incomplete"
    window_ms: int | None = None
    exclude: tuple[str, ...] = ()
    """Ids that do not count as the existing job."""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to an id that exists."""

    on_conflict: OnConflict = "keep"
    on_failed: OnFailed = "keep"
    update_payload: bool = True
    update_run_at: UpdateRunAt = "always"
    reset_counts: bool | None = None
    """`None`: the same as `update_payload`."""

    @property
    def resets(self) -> bool:
        """True when an update starts the counters anew."""
        return self.update_payload if self.reset_counts is None else self.reset_counts


KEEP = Conflict()


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be taken in. `run_at_ms` is an instant, `delay_ms` counts from the store's own now."""

    id: str
    task: str | None
    payload: bytes
    fresh: bool = False
    """The id was generated for this call, so that it cannot exist yet."""
    run_at_ms: int | None = None
    delay_ms: int | None = None
    priority: int = 0
    key: str | None = None
    envelope: bytes | None = None
    """A `core.envelope.Envelope`, encoded: stores keep it and never read it."""
    overrides: Overrides | None = None
    result_ttl_ms: int | None = None
    dedup: DedupSpec | None = None
    watcher: str | None = None
    """The address of a listener that wants to hear when the answering run ends."""
    blockers: tuple[BlockerRef, ...] = ()
    """Chains that must be over before it may run."""
    on_blocker_failed: OnBlockerFailed = "fail"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one enqueued job. `state` is where the run that answers stands."""

    status: Status
    id: str
    run: int
    state: State
    result: bytes | None = None
    error: ErrorRecord | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs: every field that is set must match."""

    queue: str | None = None
    states: tuple[State, ...] = ()
    task: str | None = None
    key: str | None = None
    ids: tuple[str, ...] = ()
    id_prefix: str | None = None
    """Jobs whose id begins with this."""
    signature: str | None = None
    """Jobs whose last error has this signature (`ErrorRecord.signature`), and that failed or are not finished."""
    enqueued_after_ms: int | None = None
    enqueued_before_ms: int | None = None
    started_after_ms: int | None = None
    """Jobs whose latest attempt was started (`JobRecord.started_at_ms`) at this instant or later. These four are for
    lists of jobs alone, as no index has them."""
    started_before_ms: int | None = None
    finished_after_ms: int | None = None
    finished_before_ms: int | None = None
    chain: ChainRef | None = None
    """Jobs of this chain, its first included."""
    holders: tuple[str, ...] = ()
    """Sessions: active jobs that one of them holds. For lists of jobs alone."""
    tag: str | None = None
    """Jobs that have this tag, among others. For lists of jobs alone."""

    @property
    def looks_at_times(self) -> bool:
        """True when it asks for when jobs were started or finished."""
        asked = self.started_after_ms, self.started_before_ms, self.finished_after_ms, self.finished_before_ms
        return any(each is not None for each in asked)

    def has_times(self, started_at_ms: int | None, finished_at_ms: int | None) -> bool:
        """Return whether a job was started and finished when it asks for; what was not is at no time."""
        return _within(started_at_ms, self.started_after_ms, self.started_before_ms) and _within(
            finished_at_ms, self.finished_after_ms, self.finished_before_ms
        )


def _within(at: int | None, after: int | None, before: int | None) -> bool:
    if after is None and before is None:
        return True
    return at is not None and (after is None or at >= after) and (before is None or at < before)


class CancelResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `cancel` found and did. It is true when something was cancelled or told to stop: job, successor or both."""

    reply: Reply
    """`ok` when anything was; the job itself runs on if its `state` is active and it was not `signalled`."""
    state: State | None = None
    """The state in which the job was found."""
    run: int | None = None
    signalled: bool = False
    successor: bool = False
    """A successor was waiting, and is cancelled too."""

    def __bool__(self) -> bool:
        return bool(self.reply)

    @property
    def runs_on(self) -> bool:
        """True when the job was found at work and left alone, whatever became of its successor."""
        return self.state is State.ACTIVE and not self.signalled


class DeleteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `delete_chain` did, or who else waits for the chain. It is true when the chain is gone."""

    reply: Reply
    chains: int = 0
    """How many chains are gone, with `cascade` those that waited for it included."""
    waiting: tuple[ChainRef, ...] = ()
    """Jobs outside that wait for the chain, for whose sake it was refused."""

    def __bool__(self) -> bool:
        return bool(self.reply)


class Producing(Protocol):
    """Enqueue, change and delete jobs and chains."""

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        """Enqueue jobs; return an answer for each, in the order given: it is new, or another holds its id."""

    async def cancel(
        self, queue: str, id: str, running: Running = "refuse", request: str | None = None
    ) -> CancelResult:
        """Cancel a job and its successor; leave or signal one that is active.

        The first job of a chain that goes on stands for the current one, where that is found in the same step.
        """

    async def promote(self, queue: str, id: str) -> Reply:
        """Promote a scheduled job: it may be claimed now."""

    async def requeue(
        self, which: Filter, *, limit: int = CANCELLED_AT_ONCE, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        """Requeue finished jobs that match; return (queue, id, new run) of each. With `dry_run`, change nothing."""

    async def delete(self, queue: str, id: str) -> Reply:
        """Delete a job, in whatever state it is."""

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        """Keep a job's result for so long: from now, or, of an unfinished one, from its end."""

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        """Keep the results of all runs of a queue with these numbers; a caller gives some hundred at once.

        `None` is as the queue says: at their end, or now for those that are finished."""

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        """Complete a chain from outside, with this result, also while a worker holds its current job."""

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> DeleteResult:
        """Delete every job of a chain. Refused while a job outside waits for it, unless that goes too."""
