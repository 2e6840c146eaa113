"""Wait for many runs to finish, in bounded memory: by the event log, and by the jobs where the log has a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...core.state import State
from ...store import Store
from ...store.contract import EventPage, Filter
from ..loop_thread import LoopThread
from ..write.run_ranges import OpenRuns

PAGE = 5000
UNFINISHED = tuple(state for state in State if not state.finished)


class RunFollower:
    """Follow the event log of a queue from its end at the time of construction."""

    def __init__(self, loop: LoopThread, queue: str) -> None:
        self._loop = loop
        self.queue = queue
        self._position = loop.run(loop.store.events("end", queue=queue, limit=1)).position
        # First jobs of open chains are finished themselves, so that the log says nothing more of them. Whatever becomes
        # one from now on, the log tells.
        self._chained = loop.run(open_chains(loop.store, queue))
        self.failed = 0

    def follow(self, left: OpenRuns, pause: Callable[[], None]) -> Iterator[int]:
        """Yield how many runs are left until none is; call `pause` when there are no new events."""
        for run in self._chained:
            left.discard(run)
        while left:
            page = self._next()
            for event in page.events:
                if (event.state is None or event.state.finished) and left.discard(event.run):
                    self.failed += event.state is State.FAILED
            if page.gap or page.reset:
                self._loop.run(_recount(self._loop.store, self.queue, left))
            yield len(left)
            if not page.events and left:
                pause()
        # A chain's end is not an event of its first job.
        while count := len(self._loop.run(open_chains(self._loop.store, self.queue, left))):
            yield count
            pause()

    def _next(self) -> EventPage:
        page = self._loop.run(self._loop.store.events(self._position, queue=self.queue, limit=PAGE))
        self._position = page.position
        return page


async def open_chains(store: Store, queue: str, ours: OpenRuns | None = None) -> set[int]:
    """Return the runs that began a chain which is still open; only ours, where it is said which these are."""
    found: set[int] = set()
    cursor: str | None = None
    while ours is None or ours.total:
        page = await store.chains(Filter(queue=queue, states=UNFINISHED), limit=1000, cursor=cursor)
        found |= {chain.ref.run for chain in page.chains if ours is None or ours.had(chain.ref.run)}
        cursor = page.cursor
        if cursor is None:
            break
    return found


async def _recount(store: Store, queue: str, left: OpenRuns) -> None:
    """Keep the runs whose jobs are unfinished: needed when events were trimmed before they were read."""
    cursor: str | None = None
    with left.recounted() as is_left:
        while True:
            page = await store.jobs(Filter(queue=queue, states=UNFINISHED), limit=1000, cursor=cursor)
            for job in page.jobs:
                is_left(job.run)
            cursor = page.cursor
            if cursor is None:
                return
