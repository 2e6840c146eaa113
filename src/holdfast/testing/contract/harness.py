"""What the suite must know of a store: how to make one, and what is left in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from ...store.contract import Store

Clock = Callable[[], int]
SPOILABLE = (
    "job", "successor", "queue", "policy", "adjustment", "lane", "key_limit", "session", "abort", "watch", "blocker",
    "schedule", "request", "event", "message", "tally",
)  # fmt: skip
"""Kinds of records that may be spoilt; a store that has none of a kind has no ways for it."""


class Harness(ABC):
    """One place for jobs, empty at first. Each test has its own."""

    url: str
    """With it, `open_store` opens the same jobs."""
    processes: bool = False
    """True when other processes reach the same jobs by the URL: the suite then races several of them."""

    @abstractmethod
    def make(self, clock: Clock | None = None) -> Store:
        """Return a store object, not opened yet, on this place. Every call gives another object on the same jobs.

        `clock` returns milliseconds since the epoch; the store takes every instant from it. `None` is the store's own.
        """

    @abstractmethod
    async def leftovers(self, store: Store) -> Mapping[str, int]:
        """Return how many entries of each kind are left that belong to a job, a session, a key or a call.

        Queues, policies, limits that an operator set, events and their readers stay; everything else must be gone once
        every job has expired and every session has left. An empty mapping means that nothing leaked.
        """

    @abstractmethod
    async def damage(self, store: Store, queue: str, id: str) -> None:
        """The record of a job cannot be decoded any more, as after a bug or a partial write from outside."""

    @abstractmethod
    async def lose(self, store: Store, queue: str, id: str) -> None:
        """The record of a job is gone; what points to it stays."""

    def ways(self, kind: str) -> Sequence[str]:
        """Return the ways in which a record of this kind can be spoilt here, by names of your own."""
        return ()

    async def spoil(self, store: Store, kind: str, way: str, queue: str, id: str) -> None:
        """One record of this kind holds garbage: that of a queue; of a job, that of this waiting job."""
        raise NotImplementedError(f"{kind}, {way}")

    @abstractmethod
    async def reset_log(self, store: Store) -> None:
        """The event log is empty and another one than before, as after a restore from a backup."""

    @abstractmethod
    def keeping(self, events: int, clock: Clock) -> Store:
        """Return a store object, not opened yet, on this place, whose log keeps only so many events."""

    @abstractmethod
    def fresh(self) -> Harness:
        """Return another place of the same kind, empty too."""

    async def ready_keys(self, store: Store, queue: str, now_ms: int) -> frozenset[str] | None:
        """Return the keys that the store's own index gives as ready, those whose token has come by now included.

        `None` when it keeps no such index.
        """
        return None

    @abstractmethod
    async def dispose(self, store: Store) -> None:
        """Nothing that `make` gave holds anything any more. Called once, after the store was closed."""


class Meddling(Harness):
    """A harness that remembers what was done behind the store's back: its log cannot tell of that."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.url = harness.url
        self.processes = harness.processes
        self.log_is_whole = True
        self.broken: set[tuple[str, str]] = set()
        """The queues and ids of jobs whose record was damaged or lost."""
        self.spoilt = False
        """Records of any kind hold garbage, which the log may tell of, or have been set aside from the log itself."""

    def make(self, clock: Clock | None = None) -> Store:
        return self._harness.make(clock)

    async def leftovers(self, store: Store) -> Mapping[str, int]:
        return await self._harness.leftovers(store)

    async def damage(self, store: Store, queue: str, id: str) -> None:
        self.broken.add((queue, id))
        await self._harness.damage(store, queue, id)

    async def lose(self, store: Store, queue: str, id: str) -> None:
        self.broken.add((queue, id))
        await self._harness.lose(store, queue, id)

    def ways(self, kind: str) -> Sequence[str]:
        return self._harness.ways(kind)

    async def spoil(self, store: Store, kind: str, way: str, queue: str, id: str) -> None:
        self.spoilt = True
        await self._harness.spoil(store, kind, way, queue, id)

    async def reset_log(self, store: Store) -> None:
        self.log_is_whole = False
        await self._harness.reset_log(store)

    def keeping(self, events: int, clock: Clock) -> Store:
        self.log_is_whole = False
        return self._harness.keeping(events, clock)

    def fresh(self) -> Harness:
        return self._harness.fresh()

    async def ready_keys(self, store: Store, queue: str, now_ms: int) -> frozenset[str] | None:
        return await self._harness.ready_keys(store, queue, now_ms)

    async def dispose(self, store: Store) -> None:
        await self._harness.dispose(store)
