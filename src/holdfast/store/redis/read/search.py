"""Jobs that match a filter, newest first: of one queue by run, of several merged by the time at which they came."""

from __future__ import annotations

import heapq
import re
from typing import NamedTuple

import msgspec

from ....core.bound import LOOKED_AT_ONCE
from ....core.envelope import readable
from ....core.job import ErrorRecord, JobRecord
from ....core.state import LETTER, State
from ....errors import ConfigError
from ...contract import Filter, JobCount, JobPage
from ...cursor import LAST, ListCursor
from ...pages import LookAhead, by_counters, states_of
from ..arguments.entry import in_groups
from ..arguments.inspect import QueueCall, RecordFields, SearchCall, SearchFilter, SearchReply
from ..caller import RedisCaller, rid
from ..record.job import RedisRecord, is_gone, parse_or_none
from ..record.view import decoded, job_record
from .candidates import Candidates

MOST_AT_ONCE = LOOKED_AT_ONCE
"""Records that one call looks at: the server does nothing else meanwhile."""
FEWEST_AT_ONCE = 500
"""The least for each queue, where there are many."""
NO_LETTER = "-"
"""Of no state."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")
"""What of a tag is the same in every JSON."""
COUNTED_IN = 2
"""A count looks at as many records as so many pages, of all queues together: the server reads each whole."""


class Found(NamedTuple):
    """Jobs of one queue, below which run to look on (`None`: nothing is left), and when the last looked at came."""

    jobs: list[JobRecord]
    below: int | None
    oldest: int | None = None


class Search:
    """Searches the jobs of one namespace."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller
        self._candidates = Candidates(caller)

    async def page(self, which: Filter, limit: int, cursor: str | None, *, chains: bool = False) -> JobPage:
        """Return jobs that match, newest first; with `chains`, first jobs that continued."""
        cursors = ListCursor("redis", "chains" if chains else "jobs", which)
        before = _places(cursors, cursor)
        names = [which.queue] if which.queue is not None else await self._caller.names()
        most = max(FEWEST_AT_ONCE, MOST_AT_ONCE // max(1, len(names)))
        each = {
            name: await self.matching(name, which, limit, before.get(name, LAST), chains=chains, most=most)
            for name in names
            if before.get(name) != 0
        }
        jobs = _merged(each)[:limit]
        after = {name: _below(found, [job for job in jobs if job.queue == name]) for name, found in each.items()}
        if not any(after.values()):
            return JobPage(jobs=jobs)
        before.update({name: run for name, run in after.items() if run != LAST})
        return JobPage(jobs=jobs, cursor=cursors.text(msgspec.json.encode(before).decode()))

    async def matching(
        self,
        queue: str,
        which: Filter,
        limit: int,
        before: int = LAST,
        *,
        requeued: bool = True,
        chains: bool = False,
        most: int | None = None,
    ) -> Found:
        """Return jobs of one queue that match, and one more; look at `most` records, or all.

        Without `requeued`, those are left out that were started anew.
        """
        runs = await self._candidates.of(queue, which, chains)
        jobs: list[JobRecord] = []
        look, oldest = LookAhead(limit, most), None
        while size := look.next():
            left = limit + 1 - len(jobs)
            chosen = await runs.below(before, size) if runs is not None else None
            if chosen is not None and not chosen:
                return Found(jobs, None)
            reply = await self._ask(queue, which, before, size, left, chosen, fresh=not requeued)
            matched = await self._parsed(queue, which, reply)
            jobs, oldest = jobs + matched, reply.oldest or oldest
            if len(jobs) > limit:
                return Found(jobs[: limit + 1], jobs[limit - 1].run, jobs[limit].enqueued_at_ms)
            if len(reply.records) < left * len(RecordFields._fields) and (
                reply.below == 0 or (chosen is not None and len(chosen) < size)
            ):
                return Found(jobs, None)
            if runs is None and 2 * reply.seen < size:
                runs = await self._candidates.every(queue)
            before = reply.below
        return Found(jobs, before, oldest)

    async def count(self, which: Filter, most: int) -> JobCount:
        """Return how many jobs match, within bounds."""
        names = [which.queue] if which.queue is not None else await self._caller.names()
        if by_counters(which):
            return JobCount(number=sum([await self._counted(name, which) for name in names]))
        number, more = 0, False
        look_at = max(FEWEST_AT_ONCE, COUNTED_IN * MOST_AT_ONCE // max(1, len(names)))
        for name in names:
            found, unsure = await self._number(name, which, most + 1 - number, look_at)
            number, more = number + found, more or unsure
            if number > most:
                return JobCount(number=most, more=True)
        return JobCount(number=number, more=more)

    async def _counted(self, queue: str, which: Filter) -> int:
        found = await self._caller.read(queue, QueueCall())
        return 0 if found is None else sum(getattr(found, state) for state in which.states or State)

    async def _number(self, queue: str, which: Filter, most: int, look_at: int) -> tuple[int, bool]:
        """Return how many jobs of one queue match, up to `most`, and whether there may be more."""
        runs = await self._candidates.of(queue, which, False)
        number, before, look = 0, LAST, LookAhead(0, look_at, first=MOST_AT_ONCE)
        bare = which.tag is None and not which.holders and not which.looks_at_times
        while size := look.next():
            chosen = await runs.below(before, size) if runs is not None else None
            if chosen is not None and not chosen:
                return number, False
            left = most - number
            reply = await self._ask(queue, which, before, size, left, chosen, bare=bare)
            number += await self._counted_in(queue, which, reply)
            if number >= most:
                return most, True
            if len(reply.records) < left * len(RecordFields._fields) and (
                reply.below == 0 or (chosen is not None and len(chosen) < size)
            ):
                return number, False
            if runs is None and 2 * reply.seen < size:
                runs = await self._candidates.every(queue)
            before = reply.below
        return number, True

    async def chosen(self, queue: str, which: Filter, runs: list[int], most: int) -> tuple[list[JobRecord], int]:
        """Return those of some runs of one queue that match, up to so many, and which was the last looked at."""
        reply = await self._ask(queue, which, LAST, len(runs), most, runs)
        return await self._parsed(queue, which, reply), reply.below

    async def _counted_in(self, queue: str, which: Filter, reply: SearchReply) -> int:
        """Return how many jobs of a reply match; one without a record does, as the server knows."""
        groups = list(in_groups(reply.records, RecordFields))
        unsure = [value for group in groups if group[1] for value in group]
        parsed = await self._parsed(queue, which, reply._replace(records=unsure)) if unsure else []
        return len(parsed) + sum(not record for _, record, _ in groups)

    async def _ask(
        self,
        queue: str,
        which: Filter,
        below: int,
        most: int,
        limit: int,
        runs: list[int] | None,
        *,
        fresh: bool = False,
        bare: bool = False,
    ) -> SearchReply:
        wanted = msgspec.json.encode(_wanted(which, fresh))
        call = SearchCall(below=below, most=most, limit=limit, bare=bare, which=wanted)
        return await self._caller.read(queue, call, [rid(run) for run in runs or ()])

    async def _parsed(self, queue: str, which: Filter, reply: SearchReply) -> list[JobRecord]:
        """Return the jobs of a reply; what cannot be read is set aside."""
        jobs = []
        for run, raw, successor in in_groups(reply.records, RecordFields):
            parsed = parse_or_none(raw)
            if parsed is None:
                await self._caller.set_aside(queue, [run])
            elif not is_gone(parsed, reply.now) and _matches(which, parsed):
                jobs.append(job_record(queue, run, parsed, bool(successor), reply.now))
        return jobs


def _wanted(which: Filter, fresh: bool) -> SearchFilter:
    """Return what the server looks at."""
    return SearchFilter(
        states="".join(LETTER[State(state)] if state else NO_LETTER for state in states_of(which)) or None,
        task=which.task,
        key=which.key,
        prefix=which.id_prefix or None,
        signature=which.signature,
        after=which.enqueued_after_ms,
        before=which.enqueued_before_ms,
        fresh=fresh,
        word=None if which.tag is None else max(_PLAIN.findall(which.tag), key=len, default=None),
    )


def _merged(each: dict[str, Found]) -> list[JobRecord]:
    """Return the jobs of all queues by the time at which they came, down to where every queue was looked at.

    The runs of one queue stay in their order, even where the clock went back: the cursor counts by runs.
    """
    seen = [reach for found in each.values() if (reach := _reach(found)) is not None]
    jobs = heapq.merge(
        *(found.jobs for found in each.values()), key=lambda job: (job.enqueued_at_ms, job.run), reverse=True
    )
    return [job for job in jobs if not seen or len(each) == 1 or job.enqueued_at_ms >= max(seen)]


def _reach(found: Found) -> int | None:
    """Return the time down to which a queue was looked at; `None` when that is unknown, or when it has no more."""
    if found.below is None or found.oldest is None:
        return None
    return min([found.oldest, *(job.enqueued_at_ms for job in found.jobs)])


def _below(found: Found, shown: list[JobRecord]) -> int:
    """Return below which run the next page of a queue begins; 0 when it has no more, `LAST` when it begins anew."""
    if len(shown) < len(found.jobs):
        return shown[-1].run if shown else LAST
    return found.below or 0


def _places(cursors: ListCursor, cursor: str | None) -> dict[str, int]:
    """Return below which run the page begins, by queue."""
    place = cursors.place(cursor)
    try:
        return {} if place is None else msgspec.json.decode(place, type=dict[str, int])
    except msgspec.MsgspecError:
        raise ConfigError(f"cursor {cursor!r} is not one that a list of {cursors.listed} gave") from None


def _matches(which: Filter, found: RedisRecord) -> bool:
    """Return whether a record matches in what the server does not look at, or does not know."""
    return (
        (not which.states or found.state in which.states)
        and (not which.ids or found.id in which.ids)
        and (not which.holders or (found.state is State.ACTIVE and found.life.session in which.holders))
        and (which.tag is None or which.tag in readable(found.rest.envelope).tags)
        and (which.signature is None or _signature(found) == which.signature)
        and (not which.looks_at_times or which.has_times(found.life.claimed_at, found.life.finished_at))
    )


def _signature(found: RedisRecord) -> str | None:
    error = decoded(found.rest.error, ErrorRecord)
    return None if error is None else error.signature
