"""What a store must do. Batch-first, words for replies, and every call may be repeated.

A method that is named after a transition does that transition, atomically. `settle_and_claim` loops
over the same transitions: it is what a worker calls, and is one atomic step as a whole.

A call that changes something may carry a `request` id. A repeat of it, after a lost reply, gets the
first answer and changes nothing. Settling is repeatable by its lease alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec

from ..core.chain import BlockerRef, ChainRef, OnBlockerFailed
from ..core.event import Event
from ..core.job import ErrorRecord, JobRecord, Progress
from ..core.limit import QueueSettings
from ..core.policy import Cause, Counters, Overrides, Policy
from ..core.state import State
from ..core.transition import Reply

OnConflict = Literal["keep", "update"]
OnFailed = Literal["keep", "requeue"]
UpdateRunAt = Literal["always", "never", "if_later", "if_earlier"]
Running = Literal["refuse", "signal", "kill"]
Abort = Literal["cancelled", "timeout", "lease_lost", "completed_elsewhere", "deleted", "shutdown", "killed"]
"""Why a handler must stop. `killed` is how a store says that it is cancelled and shall not be asked twice."""
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
    headers: dict[str, str] | None = None
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


class Lease(msgspec.Struct, frozen=True):
    """The token of one attempt: no other attempt has the same run and attempt."""

    queue: str
    id: str
    run: int
    attempt: int


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
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
    headers: dict[str, str]
    overrides: Overrides | None = None
    last_error: ErrorRecord | None = None
    checkpoint: bytes | None = None
    timeout_ms: int | None = None
    """How long its handler may run, by policy and overrides as they stand at the claim."""
    chain: ChainRef | None = None
    """The first job of its chain; `None` for a job that continues no other."""
    position: int = 0


class Continuation(msgspec.Struct, frozen=True):
    """The next job of a chain. Its id is made by `continuation_id`; dedup and watcher are not for it."""

    queue: str
    job: NewJob


class Complete(msgspec.Struct, frozen=True, tag="complete"):
    """The handler returned."""

    lease: Lease
    result: bytes
    result_ttl_ms: int | None = None
    then: Continuation | None = None
    """The chain goes on with this job, in the same step; `result` does not count then."""


class Retried(msgspec.Struct, frozen=True, tag="retry"):
    """The handler raised or ran out of time; at the cause's limit the store fails the job instead."""

    lease: Lease
    error: ErrorRecord
    cause: Cause = Cause.FAILURE


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
    """The worker hands the job back, unfinished: a release; or a stall, when the process that ran it died."""

    lease: Lease
    delay_ms: int = 0
    error: ErrorRecord | None = None
    cause: Cause = Cause.RELEASE


Settlement = Complete | Retried | Failed | Snoozed | Released


class Settled(msgspec.Struct, frozen=True):
    """What became of one settlement. `state` is the state afterwards, when the reply is `ok`."""

    reply: Reply
    state: State | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's registration, under a random id that is new at every start."""

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    lease_ms: int = 15_000
    slots: int = 1
    address: str | None = None
    """Where the store can wake this worker; made by `listen`."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to `settle_and_claim`."""

    evicted: bool = False
    """The session was declared dead: nothing was settled or claimed."""
    late: bool = False
    """The lease had expired but nobody had reaped it; it counts, with a warning."""
    settled: list[Settled] = []
    claimed: list[Claimed] = []
    next_at_ms: int | None = None
    """When something next becomes claimable, if nothing else happens."""
    now_ms: int = 0
    settings: dict[str, QueueSettings] = {}
    more: bool = False
    """Something may be claimable now that this worker had no room for."""
    aborts: list[tuple[Lease, Abort]] = []
    """Held jobs whose handlers must be told to stop, and why."""


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a heartbeat."""

    evicted: bool = False
    late: bool = False
    aborts: list[tuple[Lease, Abort]] = []
    """Held jobs whose handlers must be told to stop, and why."""


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `reap` did."""

    sessions: tuple[str, ...] = ()
    returned: int = 0
    failed: int = 0
    shifted_ms: int = 0
    """By how much expiries were moved because the store had been away."""
    more: bool = False


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """What `cancel` found and did."""

    reply: Reply
    state: State | None = None
    """The state in which the job was found."""
    run: int | None = None
    signalled: bool = False
    successor: bool = False
    """A successor was waiting, and is cancelled too."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs: every field that is set must match."""

    queue: str | None = None
    states: tuple[State, ...] = ()
    task: str | None = None
    key: str | None = None
    ids: tuple[str, ...] = ()
    enqueued_after_ms: int | None = None
    enqueued_before_ms: int | None = None
    chain: ChainRef | None = None
    """Jobs of this chain, its first included."""


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs, newest first, and where the next page begins."""

    jobs: list[JobRecord]
    cursor: str | None = None


class ChainRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A chain as it stands. A job that never continued is a chain of one."""

    ref: ChainRef
    task: str | None
    state: State
    """How it ended; while it goes on, the state of its current job."""
    position: int = 0
    """The place of its current job, or of its last."""
    current: ChainRef
    """Its current job, or its last."""
    enqueued_at_ms: int
    finished_at_ms: int | None = None
    result: bytes | None = None
    error: ErrorRecord | None = None
    expires_at_ms: int | None = None


class ChainPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some chains, newest first, and where the next page begins."""

    chains: list[ChainRecord]
    cursor: str | None = None


class BlockerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One of the chains that a job waits for, or waited for. `state` is `None` while it is open."""

    ref: BlockerRef
    state: State | None = None
    queue: str | None = None
    task: str | None = None
    """The queue and task of the chain's last job, whose result it is."""
    result: bytes | None = None
    error: ErrorRecord | None = None


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """What `delete_chain` did, or who else waits for the chain."""

    reply: Reply
    chains: int = 0
    """How many chains are gone, with `cascade` those that waited for it included."""
    waiting: tuple[ChainRef, ...] = ()
    """Jobs outside that wait for the chain, for whose sake it was refused."""


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events in commit order, and the position after them."""

    events: list[Event]
    position: str
    gap: int = 0
    """How many events were trimmed before they could be read."""
    reset: bool = False
    """The log is another one than the position was made for; reading began at its start."""


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at a glance."""

    name: str
    counts: dict[str, int]
    settings: QueueSettings
    overrides: dict[str, Any] = {}
    key_overrides: dict[str, int] = {}
    workers: int = 0
    oldest_waiting_ms: int | None = None
    """When the oldest waiting job became claimable."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it."""

    session: Session
    started_at_ms: int
    heard_at_ms: int
    expires_at_ms: int
    active: int
    alive: bool = True


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a queue and its tasks when it starts."""

    queue: str
    version: int = 0
    settings: dict[str, Any] = {}
    """The fields of `QueueSettings` that the code sets; the rest keep the library's defaults."""
    tasks: dict[str, Policy] = {}


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as stores keep it: the body is for `core.schedule` alone."""

    queue: str
    name: str
    revision: str
    """Another one with every change, made by whoever makes it."""
    next_at_ms: int | None
    body: bytes


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule is to become, if it is still as it was read."""

    queue: str
    name: str
    expected: str | None
    """The revision that was read; `None`: there was no such schedule."""
    revision: str
    next_at_ms: int | None = None
    body: bytes | None = None
    """`None`: the schedule is removed."""


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a change: `stale` when the schedule is another one by now, `missing` when it is gone."""

    reply: Reply
    answers: list[Answer] = []


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules whose tick has come, and when the next one's does."""

    now_ms: int
    rows: list[ScheduleRow] = []
    next_at_ms: int | None = None
    """Of those that are not due yet; `None` when there is none."""


class Finished(msgspec.Struct, frozen=True):
    """What a waiter hears: which run ended, and how; or, with the state `active`, that it got further."""

    queue: str
    id: str
    run: int
    state: State
    result: bytes | None = None
    """That of a completed run which is no part of a chain, where the store sends it along; else it is asked for."""


HELD = 10
"""A log with a reader that is behind grows to so many times its history, and no further."""
FORGOTTEN_MS = 7 * 24 * 3600 * 1000
"""After so long without a word a reader holds nothing."""


class Listener(Protocol):
    """An ear of this process: workers park on it, callers wait for results on it."""

    address: str

    def close(self) -> None:
        """Hear nothing more."""


class Store(Protocol):
    """The contract. Everything is safe to call from several tasks at once."""

    url: str
    transactional: bool
    """True when it is `Transactional`: jobs can be taken in, and completed, in a caller's own transaction."""
    shared: bool
    """True when other processes can reach the same jobs."""
    turns_at_once: int
    """How many calls of `settle_and_claim` a worker has under way under load: 2 where the store works elsewhere."""

    def absent(self) -> str | None:
        """Return the place where `open` would make a new store, or `None` when there is one already."""

    async def open(self) -> None:
        """The store can be used; its schema is there."""

    async def close(self) -> None:
        """Everything that was begun is done, and nothing is held open."""

    def twin(self) -> Store:
        """Return a store for another event loop: the same jobs, with connections of its own where needed."""

    async def now_ms(self) -> int:
        """Return the store's own time."""

    # --- producing

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        """Every job is taken in, or answered by the one that holds its id, in the order given."""

    async def cancel(self, queue: str, id: str, running: Running = "refuse", request: str | None = None) -> Cancelled:
        """The job and its successor are cancelled, or an active one is left or signalled."""

    async def promote(self, queue: str, id: str) -> Reply:
        """A scheduled job may be claimed now."""

    async def requeue(
        self, which: Filter, *, limit: int = 1000, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        """Finished jobs run anew: (queue, id, new run) of each; with `dry_run`, of what would be."""

    async def delete(self, queue: str, id: str) -> Reply:
        """The job is gone, in whatever state it was."""

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        """A finished job's result is kept for so long from now; an unfinished one's from its end."""

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int) -> None:
        """The same for all runs of a queue with these numbers; a caller gives some hundred at once."""

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        """complete, from outside: the chain is over with this result, whoever works on its current job."""

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> Deleted:
        """Every job of the chain is gone. Refused while a job outside waits for it, unless that goes too."""

    # --- working

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Policies and settings are in force, unless a higher version is there already."""

    async def register(self, session: Session) -> None:
        """The session may claim."""

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
    ) -> Turn:
        """Every settlement has its word, and up to `room` jobs are claimed, from the queues in that order.

        With `park`, a session that got less than it had room for is woken when there is more. `idle` says that
        nothing runs in it: a store may then claim for it before it wakes it (`given`).
        """

    def given(self, session: Session, room: int) -> list[Claimed]:
        """Return the jobs that were claimed for an idle session when it was woken, and hand them on once.

        Nothing when there is no room for all of them: the next turn has them, or hands them back.
        """

    async def extend(self, session: Session) -> Extended:
        """The session's expiry is moved in every queue that it serves."""

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        """Progress, checkpoint, or both are stored with the run."""

    async def held(self, session: Session) -> list[Claimed]:
        """Return what the store thinks this session is working on."""

    async def leave(self, session: Session) -> None:
        """The session is over; it must hold nothing any more."""

    async def reap(self, queue: str, limit: int = 100, but: str | None = None) -> Reaped:
        """Jobs of expired sessions are back in their queue, at most `limit` of them."""

    async def expire(self, queue: str, limit: int = 1000) -> int:
        """Finished runs past their retention, and events past theirs, are gone, at most `limit` of each."""

    # --- looking

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return the run that answers for an id, or one run of it."""

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return jobs that match, newest first."""

    async def pending(self, queues: Sequence[str]) -> bool:
        """True while a job waits to be claimed, or, once started, for another attempt. Paused queues do not count."""

    async def queues(self) -> list[QueueInfo]:
        """Return every queue that the store knows."""

    async def sessions(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        """Return the policy in force of every task of a queue, operators' settings included."""

    async def events(
        self, position: str | None = None, *, queue: str | None = None, id: str | None = None, limit: int = 1000
    ) -> EventPage:
        """Return events after a position, in commit order; `None` is the beginning, `"end"` the end.

        With `queue`, those of one queue; with `id` as well, those of one job.
        """

    async def hold(self, reader: str, position: str | None) -> None:
        """Events behind a position are kept for a named reader, as far as `HELD` times the history; `None`: no more.

        A reader that is not heard of for `FORGOTTEN_MS` holds nothing. Past that, or past the cap, it is told of a gap.
        """

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        """Return the chain of a job: the one that it began, or belongs to."""

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        """Return chains of more than one job, newest first. Queue, task, ids and times are of their first jobs."""

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for, in the order given."""

    # --- steering

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        """An operator's settings are in force above what workers declare; cleared ones no more."""

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        """An operator's settings of a task are in force above what workers declare; cleared ones no more."""

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """One key has a concurrency of its own; `None` takes it away."""

    # --- schedules

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        """The schedule is changed and the jobs are taken in, in one step; or, with another word than `ok`, nothing is.

        Its new revision is the request id: a repeat gets the first answer.
        """

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        """Return every schedule, or those of one queue or name, by queue and name."""

    async def due(self, queues: Sequence[str], limit: int = 100) -> Due:
        """Return schedules of these queues whose tick has come, at most `limit`, the longest overdue first."""

    # --- hearing

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        """The callbacks run in this event loop: when a parked session has work, when a watched run ends."""

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        """The listener hears when the run ends. False: it has ended already, or is not there."""

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        """The listener hears no more of the run."""

    async def doctor(self) -> list[tuple[str, bool, str]]:
        """Return checks of the store itself: name, whether it is well, and a line for people."""


class Joined(Protocol):
    """A connection of the caller's, in whose transaction jobs are taken in."""

    def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Every job has its answer, and is there when the caller commits. Errors of the driver are raised as they are.

        On a synchronous connection it is done when this returns; on an asynchronous one, when it is awaited.
        """


ENDED = "the handler ended the transaction of job.complete() itself; leave COMMIT and ROLLBACK to the end of the block"


class Opened(Protocol):
    """A transaction of the store's own, in which a handler writes."""

    connection: Any
    """The driver's connection: whatever is written with it is committed with the transaction, or not at all."""

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """The settlement has its word, as part of the transaction. A session that was declared dead gets `stale`."""


class Transactional(Store, Protocol):
    """What a store can do besides, when its jobs are in a database that the caller can write, too."""

    atomic: bool
    """True when a transaction may stay open while a handler runs, and stops nobody else."""

    def join(self, connection: Any) -> Joined:
        """Return the caller's connection as one that takes in jobs; raise `ConfigError` when it cannot be one."""

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        """Return a transaction: committed at the end of the block, rolled back when that raises."""


__all__ = [name for name in globals() if name[0].isupper()] + ["FORGOTTEN_MS", "HELD", "KEEP"]
