"""What there is to see: jobs, chains, queues, sessions and the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from ...core.bound import EVENTS_AT_ONCE, MOST_COUNTED
from ...core.chain import BlockerRef, ChainRef
from ...core.declaration import Settings, View
from ...core.event import Event
from ...core.job import ErrorRecord, JobRecord
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.state import State
from .produce import Filter
from .work import Session, SessionCommand

if TYPE_CHECKING:
    from .measure import Dependants, JobCount, KeyInfo, KeyOrder, StoreMeasure


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs in the order of their list, and where the next page begins."""

    jobs: list[JobRecord]
    cursor: str | None = None
    """`None` when there are no more. With a cursor, a page may be short, or empty: see `Inspecting.jobs`."""


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


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events in order, and the position after them."""

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
    overrides: Settings = {}
    key_overrides: dict[str, int] = {}
    workers: int = 0
    oldest_waiting_ms: int | None = None
    """When the job that has waited longest became claimable.

    Of each priority only the one that comes first is looked at: when it was given
    back, others behind it may have waited longer.
    """


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it."""

    session: Session
    started_at_ms: int
    heard_at_ms: int
    expires_at_ms: int
    active: int
    alive: bool = True
    memory_bytes: int | None = None
    """The memory of its process and of those in which it runs handlers, as of its last heartbeat; `None`: not said."""
    command: SessionCommand | None = None
    """What it was told, and has yet to be done with."""


class Inspecting(Protocol):
    """Reading: nothing of this changes a job."""

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return the run that answers for an id, or one run of it."""

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        """Return the run that answers for each of these ids, as `get` does, in their order; none for what is gone.

        Without a queue, an id stands for itself in every queue that has it, by the names of the queues.
        """

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return jobs that match, newest first; those of a state that may have any number in an order of its own.

        A list of one state, of a queue or of all, comes at once whatever else there is, since it is in the order of an
        index. What waits (`states=(State.WAITING,)`) is listed by when it was due, the last first; what is scheduled
        by when it is due, the next first; what is completed by when it is removed, the last first, and then those that
        go with their chain. With ids, an `id_prefix`, a chain, a signature or holders, the newest is first again.

        A page costs by what it returns, or by a bound, never by what the store has: where no index finds the next
        match, at most about `LOOKED_AT_ONCE` rows are looked at, and the page is short, or empty, with a cursor that
        goes on behind them. Who wants a whole page asks on until it is full or there is no cursor.
        A cursor is for the filter and the kind of store that gave it; another raises `ConfigError`.
        """

    async def pending(self, queues: Sequence[str]) -> bool:
        """True while a job waits to be claimed, or, once started, for another attempt. Paused queues do not count."""

    async def queues(self) -> list[QueueInfo]:
        """Return every queue that the store knows. What it costs does not grow with the jobs that wait or are kept."""

    async def sessions(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        """Return the policy in force of every task of a queue, operators' settings included."""

    async def events(
        self,
        position: str | None = None,
        *,
        queue: str | None = None,
        id: str | None = None,
        limit: int = EVENTS_AT_ONCE,
    ) -> EventPage:
        """Return events after a position; `None` is the beginning, `"end"` the end.

        `"end-1000"` is about so many events before the end: never more, and fewer where fewer are kept.

        A caller that reads on gets each event once, and none of a run before one that happened to it earlier.
        With `queue`, those of one queue; with `id` as well, those of one job.
        """

    async def hold(self, reader: str, position: str | None) -> None:
        """Keep events behind a position for a named reader, up to `MOST_BEHIND` times the history; `None`: no more.

        A reader that is not heard of for `READER_FORGOTTEN_MS` holds nothing. Past either, it is told of a gap.
        """

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        """Return the chain of a job: the one that it began, or belongs to."""

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        """Return chains of more than one job, newest first. Queue, task, ids and times are of their first jobs."""

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for, in the order given."""

    async def dependants(self, queue: str, id: str, run: int | None = None, *, limit: int = 50) -> Dependants:
        """Return the jobs that wait for the chain of a job, at most `limit` of them, and how many there are."""

    async def layers(self, queue: str) -> View:
        """Return what workers declared of a queue and its tasks, in which version, and what operators set above it."""

    async def keys(self, queue: str, *, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        """Return keys of a queue in this order, with their limits.

        Of a queue with more keys than `KEYS_LOOKED_AT`, so many are looked at, besides those with active jobs
        (`busiest`), or with the jobs, or the keys, that come first (`starved`).
        """

    async def count(self, which: Filter, *, most: int = MOST_COUNTED) -> JobCount:
        """Return how many jobs match, counted up to `most`, and within the bounds of some pages of `jobs`.

        By queue and state alone, counters know the number, whatever `most` is.
        """

    async def measure(self) -> StoreMeasure:
        """Return what grows, waits and is late in the store. What it costs does not grow with its jobs."""
