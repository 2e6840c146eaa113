"""What is looked at beside the log: the clock, queues and workers, dead letters, and a message for each error."""

from __future__ import annotations

import time

from ...store.contract import QueueInfo, SessionInfo, Store
from .dead_letters import DeadLetterCount
from .depth import Depths
from .failures import Failures
from .options import RecentOptions

MESSAGES_AT_ONCE = 5
"""Jobs that are looked up for their message after a page of the log."""

COUNTING_SHARE = 100
"""Counting dead letters again waits so many times as long as it took."""


class Chores:
    """Looks now and then, a little at a time."""

    def __init__(self, store: Store, options: RecentOptions, failures: Failures, depths: Depths) -> None:
        self._store = store
        self._options = options
        self._failures = failures
        self._depths = depths
        self._ahead_ms = 0
        self._looked_at = self._count_after = self._lag_at = -1e9
        self._count: DeadLetterCount | None = None
        self._dead_then: int | None = None
        self.has_looked = False
        self.queues: list[QueueInfo] = []
        self.workers: list[SessionInfo] = []
        self.lake_lag_ms: int | None = None
        """How far the named reader of the log that is most behind, such as the lake, is behind; `None` without one."""
        self.dead_letters_changed = False
        """Set when some of them were requeued, which leaves their number as it is."""
        self.dead_letters_counted = 0
        self.dead_letters_whole = False

    @property
    def now_ms(self) -> int:
        """The time by the store's clock, as it was compared last."""
        return round(time.time() * 1000) + self._ahead_ms

    async def set_clock(self) -> None:
        """Compare the clocks."""
        self._ahead_ms = await self._store.now_ms() - round(time.time() * 1000)

    async def some(self) -> bool:
        """Do what is due, a little of it; return whether there is more to do at once."""
        now = time.monotonic()
        if now - self._looked_at >= self._options.look_every:
            await self.look()
        unknown = self._failures.without_message()
        for signature, sample in unknown[:MESSAGES_AT_ONCE]:
            self._failures.looked_up(signature, await self._store.get(sample.queue, sample.id, sample.run))
        await self._count_some(now)
        return len(unknown) > MESSAGES_AT_ONCE or self._count is not None

    async def look(self) -> None:
        """Look at the clock, the queues and the workers."""
        await self.set_clock()
        self.queues = await self._store.queues()
        self.workers = await self._store.sessions()
        self._depths.note(self.queues, self.now_ms)
        await self._look_at_readers()
        self._looked_at = time.monotonic()
        self.has_looked = True

    async def _look_at_readers(self) -> None:
        if time.monotonic() - self._lag_at >= self._options.lag_every:
            self.lake_lag_ms = max((await self._store.measure()).log.lag_ms.values(), default=None)
            self._lag_at = time.monotonic()

    async def _count_some(self, now: float) -> None:
        """Count a page of dead letters; begin anew when their number is another than at the last count."""
        if self._count is None:
            dead = sum(info.counts.get("failed", 0) for info in self.queues)
            if now < self._count_after or (dead == self._dead_then and not self.dead_letters_changed):
                return
            self._count = DeadLetterCount(self._store, self._options.dead_letters)
            self._dead_then, self.dead_letters_changed = dead, False
        count = self._count
        if not count.over:
            await count.page()
        if count.over:
            self._failures.count_dead(count.found)
            self.dead_letters_counted, self.dead_letters_whole = count.counted, count.whole
            self._count = None
            self._count_after = now + max(self._options.count_every, COUNTING_SHARE * count.spent)
