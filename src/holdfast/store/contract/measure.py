"""What operators measure: the keys of a queue, what grows in a store, and how many jobs match."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...core.chain import ChainRef
from .inspect import QueueInfo

KeyOrder = Literal["busiest", "starved", "name"]
"""Most active jobs first, then most waiting; the longest wait first; or by name."""


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One concurrency key of a queue that has jobs, or whose bucket is not full yet."""

    key: str
    waiting: int = 0
    """Jobs that wait to be claimed, counted up to `MOST_COUNTED`; suspects, which wait apart, are none of them."""
    active: int = 0
    limit: int | None = None
    """How many may run at once: its own limit, or the queue's; `None` is no limit."""
    own_limit: bool = False
    """The limit is its own, by an operator or by the code."""
    tokens: float | None = None
    """What its bucket has now, where the queue has a rate for each key."""
    ready_at_ms: int | None = None
    """When its next token comes, where it lacks only that."""
    oldest_waiting_ms: int | None = None
    """When the job that comes first became claimable."""

    @property
    def at_limit(self) -> bool:
        """True when it runs as many jobs as it may."""
        return self.limit is not None and self.active >= self.limit


class QueueMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at a glance, and what of it tells of trouble."""

    info: QueueInfo
    keys_at_limit: int = 0
    """Keys that run as many jobs as they may."""
    scheduled_overdue_ms: int = 0
    """By how much the most overdue scheduled job is late; 0 when none is due."""


class LogMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """The event log of a store."""

    events: int = 0
    """How many it keeps, by their numbers: where some belong to no event (PostgreSQL), a little more than there are."""
    bytes: int | None = None
    """The room that it takes, as the server says; `None` where none says so (SQLite)."""
    readers: dict[str, int] = {}
    """By the name of each reader for which events are kept (`hold`): how many events it has still to read."""
    lag_ms: dict[str, int] = {}
    """By the same names: how long ago the first event came that it has still to read; 0 for one that has read all."""


class StoreMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """A store at a glance."""

    now_ms: int
    queues: list[QueueMeasure]
    log: LogMeasure


class Dependants(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that wait for a chain, oldest first, and how many there are."""

    jobs: list[ChainRef]
    count: int
    """Counted up to `MOST_COUNTED`; `jobs` has the first of them."""


class JobCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs match a filter, as far as they were counted."""

    number: int
    more: bool = False
    """Counting ended before all were counted: there may be more."""
