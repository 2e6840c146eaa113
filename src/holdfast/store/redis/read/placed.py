"""Pages of the jobs of one state, in the order of its index: of each queue from its own place on, merged."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import msgspec

from ....core.job import JobRecord
from ....core.state import State
from ....errors import ConfigError
from ...contract import Filter, JobPage
from ...cursor import ListCursor
from ...pages import FIRST_PLACE, LookAhead, SortPlace, by_counters
from ..arguments.inspect import PlacedCall
from ..caller import RedisCaller
from .search import Search

MARK = "@"
"""Begins a place in such a list; one in a list by runs has none."""
MOST_LANES = 2000
"""With more keys than these, those that wait are listed by their runs."""
NO_BOUND = 10**9
"""A list goes on as it began, however many keys there are meanwhile."""
MOST_LOOKED_AT = 400
"""Jobs that one page looks at in each queue, at once where a filter may leave out some: to put them in order takes the
server longer than to look at them."""
Places = dict[str, tuple[int, int] | None]
"""The place below which a queue's part of the next page begins; `None` when it has no more."""


class PlacedJobs(NamedTuple):
    """Jobs of one queue with their places, and down to which place these are all; `None`: nothing is left."""

    jobs: list[tuple[SortPlace, JobRecord]]
    reach: SortPlace | None


class Placed:
    """Lists the jobs of one state."""

    def __init__(self, caller: RedisCaller, search: Search) -> None:
        self._caller = caller
        self._search = search

    async def page(self, which: Filter, state: State, limit: int, cursor: str | None) -> JobPage | None:
        """Return jobs that match; `None` when they are listed by their runs."""
        cursors = ListCursor("redis", "jobs", which)
        before = _before(cursors, cursor)
        each = None if before is None else await self._of_each(which, state, limit, before)
        if before is None or each is None:
            return None
        shown = _merged(each)[:limit]
        for name, found in each.items():
            _move(before, name, found, [place for place, job in shown if job.queue == name])
        jobs = [job for _, job in shown]
        if all(name in before and before[name] is None for name in each):
            return JobPage(jobs=jobs)
        return JobPage(jobs=jobs, cursor=cursors.text(MARK + msgspec.json.encode(before).decode()))

    async def _of_each(self, which: Filter, state: State, limit: int, before: Places) -> dict[str, PlacedJobs] | None:
        """Return the jobs of every queue that may have more; `None` when one has too many keys."""
        names = [which.queue] if which.queue is not None else await self._caller.names()
        lanes = NO_BOUND if before else MOST_LANES
        each: dict[str, PlacedJobs] = {}
        for name in names:
            place = before.get(name, FIRST_PLACE)
            if place is not None:
                found = await self._of_queue(name, which, limit, PlacedCall(
                    state=state, at=place[0], run=place[1], most=0, most_lanes=lanes))  # fmt: skip
                if found is None:
                    return None
                each[name] = found
        return each

    async def _of_queue(self, queue: str, which: Filter, limit: int, call: PlacedCall) -> PlacedJobs | None:
        """Return jobs of one queue, up to one more than are asked for; `None` when it has too many keys."""
        found: list[tuple[SortPlace, JobRecord]] = []
        first = limit + 1 if by_counters(which) else MOST_LOOKED_AT
        look = LookAhead(limit, max(first, MOST_LOOKED_AT), first=first)
        while size := look.next():
            call = msgspec.structs.replace(call, most=size)
            flat = await self._caller.read(queue, call)
            if flat is None:
                return None
            places = [SortPlace(*each) for each in zip(flat[::2], flat[1::2], strict=True)]
            jobs, seen = await self._jobs(queue, which, places, limit + 1 - len(found))
            found += jobs
            if len(found) > limit:
                return PlacedJobs(found[: limit + 1], found[limit][0])
            if len(places) < size and seen == len(places):
                return PlacedJobs(found, None)
            call = msgspec.structs.replace(call, at=places[seen - 1].at, run=places[seen - 1].run)
        return PlacedJobs(found, SortPlace(call.at, call.run))

    async def _jobs(
        self, queue: str, which: Filter, places: list[SortPlace], most: int
    ) -> tuple[list[tuple[SortPlace, JobRecord]], int]:
        """Return the jobs that match, up to so many, and how many places were looked at."""
        by_run = {abs(place.run): place for place in places}
        if not by_run:
            return [], 0
        runs = list(by_run)
        jobs, last = await self._search.chosen(queue, which, runs, most)
        return [(by_run[job.run], job) for job in jobs], runs.index(last) + 1


def _merged(each: dict[str, PlacedJobs]) -> list[tuple[SortPlace, JobRecord]]:
    """Return the jobs of all queues in order, down to where every queue was looked at."""
    reached = max((found.reach for found in each.values() if found.reach is not None), default=None)
    merged = heapq.merge(*(found.jobs for found in each.values()), key=lambda one: one[0], reverse=True)
    return [one for one in merged if reached is None or one[0] >= reached]


def _move(before: Places, queue: str, found: PlacedJobs, shown: list[SortPlace]) -> None:
    """Let the next page of a queue begin behind what was shown, or, when that is all, behind what was looked at."""
    if len(shown) == len(found.jobs):
        before[queue] = found.reach
    elif shown:
        before[queue] = shown[-1]


def _before(cursors: ListCursor, cursor: str | None) -> Places | None:
    """Return where the page begins, by queue; `None` for a cursor of a list by runs."""
    place = cursors.place(cursor)
    if place is None:
        return {}
    if not place.startswith(MARK):
        return None
    try:
        return msgspec.json.decode(place[len(MARK) :], type=Places)
    except msgspec.MsgspecError:
        raise ConfigError(f"cursor {cursor!r} is not one that a list of jobs gave") from None
