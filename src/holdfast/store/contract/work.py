"""Workers: sessions, turns, heartbeats and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from ...core.job import Progress
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.transition import Reply
from .produce import Abort
from .settle import Claimed, Lease, Settled, Settlement

CROWD = 1_000_000_000
"""As what a session holds: more than any suspect's company."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's registration, under a random id that is new at every start."""

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    lease_ms: int = 15_000
    slots: int = 1
    """How many jobs it holds at most, in its own process and in others: the company of whatever stalls with it."""
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


class Corrupt(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be read and was set aside: a job (`fail` with cause `corrupt`), or what `kind` says."""

    kind: str
    queue: str
    id: str
    run: int = 0
    detail: str = ""


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `reap` did."""

    sessions: tuple[str, ...] = ()
    returned: int = 0
    failed: int = 0
    shifted_ms: int = 0
    """By how much expiries were moved because the store had been away."""
    more: bool = False
    next_ms: int | None = None
    """In how long the next lease of another session here is over, unless it is heard; `None` where nobody else is."""
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


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a queue and its tasks when it starts."""

    queue: str
    version: int = 0
    settings: dict[str, Any] = {}
    """The fields of `QueueSettings` that the code sets; the rest keep the library's defaults."""
    partial: bool = False
    """The code does not name the queue: what others have set of it stays, but for these settings."""
    tasks: dict[str, Policy] = {}


class Working(Protocol):
    """What workers call, and the upkeep that anybody may do."""

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
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        """Every settlement has its word, and up to `room` jobs are claimed, from the queues in that order.

        `held` is how many jobs the session holds already, in all its queues: a suspect is given only where its company
        allows that, and then no more than its company allows besides. Whoever holds one asks for no more either.

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

    async def expire(self, queue: str, limit: int = 1000) -> Expired:
        """Finished runs past their retention, and events and answers past theirs, are gone, about `limit` of each.

        The event of a run that is gone has the cause `age`, or `count`. Whoever wants all of it gone asks again while
        there is `more`.
        """
