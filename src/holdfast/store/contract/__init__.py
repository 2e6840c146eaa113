"""What a store must do. Batch-first, words for replies, and every call may be repeated.

A method that is named after a transition does that transition, atomically. `settle_and_claim` loops
over the same transitions: it is what a worker calls, and is one atomic step as a whole.

A call that changes something may carry a `request` id. A repeat of it, after a lost reply, gets the
first answer and changes nothing. Settling is repeatable by its lease alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from ...core.declaration import Declaration
from .inspect import (
    BlockerRecord,
    ChainPage,
    ChainRecord,
    EventPage,
    Inspecting,
    JobPage,
    QueueInfo,
    SessionInfo,
)
from .measure import Dependants, JobCount, KeyInfo, KeyOrder, LogMeasure, QueueMeasure, StoreMeasure
from .operate import Due, Finding, Finished, Fired, Listener, Operating, ScheduleChange, ScheduleRow
from .produce import (
    KEEP,
    Abort,
    Answer,
    CancelResult,
    Conflict,
    DedupSpec,
    DeleteResult,
    Filter,
    NewJob,
    OnConflict,
    OnFailed,
    Producing,
    Running,
    Status,
    UpdateRunAt,
)
from .settle import (
    TRANSITION_OF,
    Claimed,
    Complete,
    Continuation,
    Failed,
    Lease,
    Released,
    Retried,
    Settled,
    Settlement,
    Snoozed,
)
from .work import (
    Corrupt,
    Expired,
    Extended,
    QueueChores,
    Reaped,
    ReapedJob,
    Session,
    SessionCommand,
    Turn,
    Working,
    knows,
)


class Store(Producing, Working, Inspecting, Operating, Protocol):
    """The contract. Everything is safe to call from several tasks at once."""

    url: str
    transactional: bool
    """True when it is `Transactional`: jobs can be taken in, and completed, in a caller's own transaction."""
    shared: bool
    """True when other processes can reach the same jobs."""
    turns_at_once: int
    """How many calls of `settle_and_claim` a worker has under way under load: 2 where the store works elsewhere."""

    async def absent(self) -> str | None:
        """Return the place where `open` would make a new store, or `None`. The store need not be open."""

    async def open(self) -> None:
        """Open the store; make its schema where it is missing."""

    async def close(self) -> None:
        """Finish what was begun, and close every connection."""

    def twin(self) -> Store:
        """Return a store for another event loop: the same jobs, with connections of its own where needed."""

    async def now_ms(self) -> int:
        """Return the store's own time."""


@runtime_checkable
class Joined(Protocol):
    """A connection of the caller's, in whose transaction jobs are taken in."""

    def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Enqueue jobs, which are there when the caller commits. Errors of the driver are raised as they are.

        On a synchronous connection it is done when this returns; on an asynchronous one, when it is awaited.
        """


ENDED = "the handler ended the transaction of job.complete() itself; leave COMMIT and ROLLBACK to the end of the block"


class Opened(Protocol):
    """A transaction of the store's own, in which a handler writes."""

    connection: Any
    """The driver's connection: whatever is written with it is committed with the transaction, or not at all."""

    def blocking(self) -> AbstractContextManager[Any]:
        """Return the connection as a thread uses it, which waits; the event loop leaves it alone in this block."""

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """Settle an attempt as part of the transaction. A session that was declared dead gets `stale`."""


class Transactional(Store, Protocol):
    """What a store can do besides, when its jobs are in a database that the caller can write, too."""

    atomic: bool
    """True when a transaction may stay open while a handler runs, and blocks no other caller."""

    def join(self, connection: object) -> Joined:
        """Return the caller's connection as one that takes in jobs; raise `ConfigError` when it cannot be one."""

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        """Return a transaction: committed at the end of the block, rolled back when that raises."""


__all__ = [
    "ENDED",
    "KEEP",
    "TRANSITION_OF",
    "Abort",
    "Answer",
    "BlockerRecord",
    "CancelResult",
    "ChainPage",
    "ChainRecord",
    "Claimed",
    "Complete",
    "Conflict",
    "Continuation",
    "Corrupt",
    "Declaration",
    "DedupSpec",
    "DeleteResult",
    "Dependants",
    "Due",
    "EventPage",
    "Expired",
    "Extended",
    "Failed",
    "Filter",
    "Finding",
    "Finished",
    "Fired",
    "JobCount",
    "JobPage",
    "Joined",
    "KeyInfo",
    "KeyOrder",
    "Lease",
    "Listener",
    "LogMeasure",
    "NewJob",
    "OnConflict",
    "OnFailed",
    "Opened",
    "QueueChores",
    "QueueInfo",
    "QueueMeasure",
    "Reaped",
    "ReapedJob",
    "Released",
    "Retried",
    "Running",
    "ScheduleChange",
    "ScheduleRow",
    "Session",
    "SessionCommand",
    "SessionInfo",
    "Settled",
    "Settlement",
    "Snoozed",
    "Status",
    "Store",
    "StoreMeasure",
    "Transactional",
    "Turn",
    "UpdateRunAt",
    "knows",
]
