"""Jobs come in: by the short way where nothing can stand in theirs, or else by the one that looks at each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from ...core.state import State
from ...errors import StoreError
from ..contract import KEEP, Answer, Conflict, NewJob
from ..gather import Gather
from . import call
from .calling import Rows
from .connection import Connection
from .looking import MOST_AT_ONCE, Looking

REMEMBERED_MS = 10 * 60 * 1000
"""For how long the answer to a request id is kept."""
SWEPT_AT = 1000
"""After so many jobs that were enqueued, a producer sweeps the log."""
WORTH_A_TRY = 100
"""So many jobs with ids of their own are taken for new until one is found to be there: that costs a call."""
MOST_DOUBTS = 64
SMALL = 64 * 1024
"""A job with so many bytes goes with others that are enqueued at the same time."""


class Guess:
    """Whether ids are new. After a wrong guess the next calls to that queue look first."""

    def __init__(self) -> None:
        self._doubts: dict[str, tuple[int, int]] = {}
        """By queue: calls that are left, and how many they were at first."""

    def doubts(self, queue: str) -> bool:
        """True when the call had better look; it counts as one that did."""
        left, first = self._doubts.get(queue, (0, 0))
        if left > 0:
            self._doubts[queue] = (left - 1, first)
        return left > 0

    def was_wrong(self, queue: str) -> None:
        """The next calls to this queue look first; more of them each time."""
        _, first = self._doubts.get(queue, (0, 0))
        more = min(MOST_DOUBTS, max(1, 2 * first))
        self._doubts[queue] = (more, more)

    def was_right(self, queue: str) -> None:
        """Nobody had the ids."""
        self._doubts.pop(queue, None)


class Enqueuing(Looking):
    """What producers call."""

    def __init__(self, url: Any, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(url, clock=clock)
        self._enqueue = self._named(call.ENQUEUE)
        self._enqueue_blocked = self._named(call.ENQUEUE_BLOCKED)
        self._fresh = self._named(call.FRESH)
        self._single: Gather[str, NewJob, Answer] = Gather(self._enqueue_fresh, MOST_AT_ONCE)
        self._guess = Guess()
        self._unswept = 0

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        if not jobs:
            return []
        answers = await self._take_in(queue, jobs, conflict, request)
        self._unswept += len(jobs)
        if self._unswept >= SWEPT_AT:
            await self._sweep()
        return answers

    async def _sweep(self) -> None:
        """The log keeps its length though no worker looks after it: more events may go than have come."""
        limit, self._unswept = self._unswept // 10, 0
        values = (self._now(), self.place.history, REMEMBERED_MS, limit)
        with contextlib.suppress(StoreError):  # the jobs are taken in, and whoever enqueues next sweeps again
            await self._value(
                "SELECT holdfast.sweep(holdfast.clock(%s::bigint), %s::bigint, %s::bigint, %s::integer)", *values
            )

    async def _take_in(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str | None
    ) -> list[Answer]:
        if request is not None or not all(call.waits_at_once(job) for job in jobs):
            return await self._enqueue_any(queue, jobs, conflict, request)
        if all(job.fresh for job in jobs):
            small = len(jobs) == 1 and len(jobs[0].payload) <= SMALL  # many large ones would be too much for one call
            if small and self._home is asyncio.get_running_loop():
                return [await self._single.ask(queue, jobs[0])]
            return await self._enqueue_fresh(queue, jobs)
        if len(jobs) < WORTH_A_TRY or not call.keeps(conflict) or self._guess.doubts(queue):
            return await self._enqueue_any(queue, jobs, conflict, None)
        return await self._enqueue_named(queue, jobs, conflict)

    async def _enqueue_fresh(self, queue: str, jobs: Sequence[NewJob]) -> list[Answer]:
        """Jobs with ids that were made for them, and nothing that could keep one from waiting."""
        runs, tries = await self._insert(queue, jobs, None, repeatable=True)
        if runs is None:
            return await self._enqueue_any(queue, jobs, KEEP, None, repeated=tries > 1)
        return _queued(jobs, runs)

    async def _enqueue_named(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
        """Jobs whose ids nobody is likely to have. They go in by the order of ids, as everybody's do: two calls
        with the same ids wait for each other, and not in a circle."""
        order = sorted(range(len(jobs)), key=lambda index: jobs[index].id)
        runs, _ = await self._insert(queue, [jobs[index] for index in order], order, repeatable=False)
        if runs is None:
            self._guess.was_wrong(queue)
            return await self._enqueue_any(queue, jobs, conflict, None)
        self._guess.was_right(queue)
        return _queued(jobs, [run for _, run in sorted(zip(order, runs, strict=True))])

    async def _insert(
        self, queue: str, jobs: Sequence[NewJob], order: list[int] | None, *, repeatable: bool
    ) -> tuple[list[int] | None, int]:
        """Return the runs, or `None` when an id was there and nothing was done; and how often it was tried."""
        values = call.fresh(self._now(), queue, jobs, order)
        tries = 0

        async def work(connection: Connection, again: bool) -> Rows | None:
            nonlocal tries
            tries += 1
            async with connection.cursor(binary=True) as cursor:
                try:
                    await cursor.execute(self._fresh, values)
                except psycopg.errors.UniqueViolation:
                    return None
                return await cursor.fetchall()

        rows = await self._insist(work, repeatable=repeatable)
        return (None if rows is None else rows[0][0]), tries

    async def _enqueue_any(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str | None, *, repeated: bool = False
    ) -> list[Answer]:
        """`repeated` says that they may have come in already, with a call whose reply was lost."""
        values = call.enqueue(self._now(), queue, jobs, conflict, request)
        statement = self._enqueue
        if any(job.blockers for job in jobs):
            statement, values = self._enqueue_blocked, [*values, *call.blockers(jobs)]
        fresh = all(job.fresh for job in jobs)
        tries = 0

        async def work(connection: Connection, again: bool) -> Rows:
            nonlocal tries
            tries += 1
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(statement, values)
                return await cursor.fetchall()

        rows = await self._insist(work, repeatable=fresh or request is not None)
        # An id that was made for this call and is there already came in with a try whose reply was lost.
        return [call.answer(row, ours=fresh and (repeated or tries > 1)) for row in rows]


def _queued(jobs: Sequence[NewJob], runs: Sequence[int]) -> list[Answer]:
    return [
        Answer(status="queued", id=job.id, run=run, state=State.WAITING) for job, run in zip(jobs, runs, strict=True)
    ]
