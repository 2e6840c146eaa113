"""Waiting for many runs to be over, in bounded memory: by the event log, and by the jobs where that has a gap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

from ..core.state import State
from ..store import Store
from ..store.contract import EventPage, Filter
from .line import Line
from .runs import Outstanding

PAGE = 5000
UNFINISHED = tuple(state for state in State if not state.finished)


class Watch:
    """Follows the event log of a queue from where it stood when this was made."""

    def __init__(self, line: Line, queue: str) -> None:
        self._line = line
        self.queue = queue
        self._position = line(line.store.events("end", queue=queue, limit=1)).position
        self.failed = 0

    def follow(self, left: Outstanding, pause: Callable[[], None]) -> Iterator[int]:
        """Yield how many are left, again and again, until none is; `pause` is called when there is no news."""
        if left:
            self._line(_set_aside(self._line.store, self.queue, left))
        while left:
            page = self._next()
            for event in page.events:
                if (event.state is None or event.state.finished) and left.discard(event.run):
                    self.failed += event.state is State.FAILED
            if page.gap or page.reset:
                self._recount(left)
            yield len(left)
            if not page.events and left:
                pause()
        while count := self._line(_count_chains(self._line.store, self.queue, left)):
            yield count
            pause()

    def _next(self) -> EventPage:
        store = self._line.store
        page = self._line(store.events(self._position, queue=self.queue, limit=PAGE))
        self._position = page.position
        return page

    def _recount(self, left: Outstanding) -> None:
        """Events were trimmed unread: the jobs themselves say what is not over."""
        self._line(_recount(self._line.store, self.queue, left))


async def _set_aside(store: Store, queue: str, left: Outstanding) -> None:
    """First jobs of chains that go on are over: the log has nothing more to say of them."""
    async for run in _open_chains(store, queue, left):
        left.discard(run)


async def _count_chains(store: Store, queue: str, ours: Outstanding) -> int:
    """Return how many of the runs began a chain that goes on. Their end is no event of theirs: it is looked for."""
    return sum([1 async for _ in _open_chains(store, queue, ours)])


async def _open_chains(store: Store, queue: str, ours: Outstanding) -> AsyncIterator[int]:
    cursor: str | None = None
    while ours.ever:
        page = await store.chains(Filter(queue=queue, states=UNFINISHED), limit=1000, cursor=cursor)
        for chain in page.chains:
            if ours.had(chain.ref.run):
                yield chain.ref.run
        cursor = page.cursor
        if cursor is None:
            return


async def _recount(store: Store, queue: str, left: Outstanding) -> None:
    cursor: str | None = None
    with left.recounted() as is_left:
        while True:
            page = await store.jobs(Filter(queue=queue, states=UNFINISHED), limit=1000, cursor=cursor)
            for job in page.jobs:
                is_left(job.run)
            cursor = page.cursor
            if cursor is None:
                return
