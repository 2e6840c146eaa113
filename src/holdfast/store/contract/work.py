"""Workers: sessions, turns, heartbeats and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from ...core.bound import DEFAULT_LEASE_MS, EXPIRED_AT_ONCE, REAPED_AT_ONCE
from ...core.declaration import Declaration
from ...core.job import Progress
from ...core.limit import QueueSettings
from ...core.policy import Counters
from ...core.state import State
from ...core.transition import Reply
from .produce import Abort
from .settle import Claimed, Lease, Settled, Settlement

SessionCommand = Literal["drain", "stop"]
"""What a worker may be told through the store: to end after a drain, as by SIGTERM, or without one."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's registration, under a random id that is new at every start."""

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    lease_ms: int = DEFAULT_LEASE_MS
    slots: int = 1
    """How many jobs it holds at most, in its own process and in others: the company of whatever stalls with it."""
    address: str | None = None
    """Where the store can wake this worker; made by `listen`."""
    tasks: tuple[str, ...] | None = None
    """The tasks that it knows, by name, and `queue:` for each queue whose plain jobs it has a handler for. `None`: it
    does not say."""
    version: str = ""
    """Holdfast's version there; empty when it does not say."""
    python: str = ""
    """Python's version there."""


def knows(session: Session, queue: str, task: str | None) -> bool:
    """Return whether a worker serves the queue and has said that it can run such a job."""
    return queue in session.queues and (f"{queue}:" if task is None else task) in (session.tasks or ())


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to `settle_and_claim`."""

    evicted: bool = False
    """The session was declared dead: nothing was settled or claimed."""
    late: bool = False
    """The lease had expired, but was not reaped; it counts, with a warning."""
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
    suspects: tuple[str, ...] = ()
    """Queues in which a suspect could be claimed now, if the session held fewer jobs."""
    unsure: bool = False
    """The store may have forgotten what this session settled, and think that it holds it still: ask what it holds."""


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a heartbeat."""

    evicted: bool = False
    late: bool = False
    aborts: list[tuple[Lease, Abort]] = []
    """Held jobs whose handlers must be told to stop, and why."""
    command: SessionCommand | None = None
    """What the worker is told, with every heartbeat until its session is over."""


class Corrupt(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be read and was set aside: a job (`fail` with cause `corrupt`), or what `kind` says."""

    kind: str
    queue: str
    id: str
    run: int = 0
    detail: str = ""


class ReapedJob(msgspec.Struct, frozen=True):
    """A job of a vanished worker, as `reap` left it."""

    lease: Lease
    """The attempt whose end will not be heard of."""
    task: str | None
    state: State
    """It may run again, has failed at its limit of stalls, or was to be cancelled."""
    counters: Counters = Counters()
    """Those of the attempt, and its stall, unless it was to be cancelled."""
    ran_ms: int = 0
    """How long ago the attempt began."""


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `reap` did."""

    jobs: tuple[ReapedJob, ...] = ()
    """In the order of their runs; but for those whose records could not be read."""
    sessions: tuple[str, ...] = ()
    returned: int = 0
    failed: int = 0
    shifted_ms: int = 0
    """By how much expiries were moved because the store had been away."""
    more: bool = False
    next_ms: int | None = None
    """In how long the next lease of another session here is over, unless it is heard; `None`: no other."""
    corrupt: tuple[Corrupt, ...] = ()
    """What was set aside since anybody was last told, by whatever call: each is told once."""


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `expire` removed."""

    runs: int = 0
    """Finished runs, whatever their state."""
    failed_by_age: int = 0
    """Dead letters among them that were kept for as long as the queue keeps them."""
    failed_by_count: int = 0
    """Dead letters among them beyond the number that the queue keeps."""
    more: bool = False
    """There is more to remove: runs, events, answers to requests, or keys that are idle."""


class QueueChores(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done in some queues: it may name too many of them.

    It misses what only `reap` finds, such as a lease that is too long since the clock was set back: so each queue is
    reaped and swept now and then, whatever this says.
    """

    reap: tuple[str, ...] = ()
    """Queues in which `reap` has something to do, or to tell."""
    expire: tuple[str, ...] = ()
    """Queues in which `expire` has something to remove."""
    next_ms: int | None = None
    """As `Reaped` has it, of those queues together that `reap` does not name."""
    policies: str = ""
    """Another text whenever a policy in any of the queues is another; the same may come back after many changes."""


class Working(Protocol):
    """What workers call, and the upkeep that anybody may do."""

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Put policies and settings in force, unless a higher version is there already."""

    async def register(self, session: Session) -> None:
        """Register a session. One that is there already has these queues from now on, and holds what it held."""

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        """Settle attempts, each with a reply, and claim up to `room` jobs, from the queues in that order.

        `held` is how many jobs the session holds already, in all its queues: a suspect is given only where its company
        allows that, and then no more than its company allows besides. A session that holds one asks for no more either.

        With `park`, a session that got less than it had room for is woken when there is more. `idle` says that
        nothing runs in it: a store may then claim for it before it wakes it (`given`).
        """

    def given(self, session: Session, room: int) -> list[Claimed]:
        """Return the jobs that were claimed for an idle session when it was woken, and hand them on once.

        Nothing when there is no room for all of them: the next turn has them, or hands them back.
        """

    async def extend(self, session: Session, memory_bytes: int | None = None) -> Extended:
        """Move the session's expiry in every queue that it serves; note how much memory it has, if that is said."""

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        """Store progress, checkpoint or both with the run."""

    async def held(self, session: Session) -> list[Claimed]:
        """Return what the store thinks this session is working on."""

    async def leave(self, session: Session) -> None:
        """End a session, which must hold nothing any more."""

    async def reap(self, queue: str, limit: int = REAPED_AT_ONCE, but: str | None = None) -> Reaped:
        """Reap the jobs of expired sessions, at most `limit` of them."""

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        """Look what upkeep has to do in these queues, so that a worker of a thousand need not try each of them.

        `but` is the caller's own session, as in `reap`. Nothing is changed.
        """

    async def expire(self, queue: str, limit: int = EXPIRED_AT_ONCE) -> Expired:
        """Expire finished runs past their retention, and remove old events and answers, about `limit` of each.

        The event of a run that is gone has the cause `age`, or `count`. To remove all of it, call again while
        there is `more`.
        """
