"""The ways by which jobs come in: a short one where nothing can stand in their way, else the one that looks at each.

`enqueue_fresh` does what `enqueue` does, for jobs that wait at once and whose ids are new; it changes nothing when one
is not. `tests/store/postgres/test_postgres_fast_paths.py` compares the ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg

from ...core.bound import ASKED_AT_ONCE, SMALL_BYTES
from ..batching import Gather, InTurn
from ..contract import KEEP, Answer, Conflict, NewJob
from .call import arguments, replies
from .connection.caller import PostgresCaller, Rows
from .connection.connect import Connection

WORTH_A_TRY = 100
"""So many jobs with ids of the caller's are taken for new, until one is found to be there: that costs a call."""
MOST_DOUBTS = 64


class IdGuess:
    """Whether the ids of a caller are new. After a wrong guess the next calls to that queue look first."""

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
        """Let the next calls to this queue look first; more of them each time."""
        _, first = self._doubts.get(queue, (0, 0))
        more = min(MOST_DOUBTS, max(1, 2 * first))
        self._doubts[queue] = (more, more)

    def was_right(self, queue: str) -> None:
        """Guess again: no job had the ids."""
        self._doubts.pop(queue, None)


class EnqueueWays:
    """Chooses the way by which jobs come in, and goes it."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller
        self._single: Gather[str, NewJob, Answer] = Gather(self._enqueue_fresh, ASKED_AT_ONCE)
        self._set: Gather[tuple[str, bool], NewJob, Answer] = Gather(self._enqueue_set, ASKED_AT_ONCE)
        """Jobs with a time or a key. Those with a key wait for their queue's row, and the others not with them."""
        self._named: InTurn[tuple[str, str]] = InTurn()
        """Calls for one id: each would have a connection of its own, and the last of them might be there first."""
        self._guess = IdGuess()

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str | None
    ) -> list[Answer]:
        """Return the answer to every job, by the shortest way that may be taken."""
        if len(jobs) == 1 and not jobs[0].fresh and self._caller.at_home():
            work = partial(self._enqueue_any, queue, jobs, conflict, request)
            return await self._named.call((queue, jobs[0].id), work)
        if len(jobs) == 1 and _is_set(job := jobs[0]) and request is None and self._caller.at_home():
            return [await self._set.ask((queue, job.key is not None), job)]
        if request is not None or not all(_waits_at_once(job) for job in jobs):
            return await self._enqueue_any(queue, jobs, conflict, request)
        if all(job.fresh for job in jobs):
            # Many large ones would be too much for one call.
            if len(jobs) == 1 and len(jobs[0].payload) <= SMALL_BYTES and self._caller.at_home():
                return [await self._single.ask(queue, jobs[0])]
            return await self._enqueue_fresh(queue, jobs)
        if len(jobs) < WORTH_A_TRY or not _keeps(conflict) or self._guess.doubts(queue):
            return await self._enqueue_any(queue, jobs, conflict, None)
        return await self._enqueue_named(queue, jobs, conflict)

    async def _enqueue_fresh(self, queue: str, jobs: Sequence[NewJob]) -> list[Answer]:
        """Enqueue jobs whose ids were made for this call."""
        values = arguments.enqueue_fresh(self._caller.now(), queue, jobs)
        runs, tries = await self._try_fresh(values, repeatable=True)
        if runs is None:
            return await self._enqueue_any(queue, jobs, KEEP, None, repeated=tries > 1)
        return replies.queued(jobs, runs)

    async def _enqueue_set(self, kind: tuple[str, bool], jobs: Sequence[NewJob]) -> list[Answer]:
        """Enqueue jobs with a time or a key, whose ids were made for this call and meet nothing."""
        return await self._enqueue_any(kind[0], jobs, KEEP, None)

    async def _enqueue_named(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
        """Enqueue jobs whose ids are likely to be new. They go in by the order of ids, as in every other call, so that
        two calls with the same ids do not wait for each other in a circle."""
        order = sorted(range(len(jobs)), key=lambda index: jobs[index].id)
        values = arguments.enqueue_fresh(self._caller.now(), queue, [jobs[index] for index in order], order)
        runs, _ = await self._try_fresh(values, repeatable=False)
        if runs is None:
            self._guess.was_wrong(queue)
            return await self._enqueue_any(queue, jobs, conflict, None)
        self._guess.was_right(queue)
        return replies.queued(jobs, [run for _, run in sorted(zip(order, runs, strict=True))])

    async def _try_fresh(self, values: arguments.Arguments, *, repeatable: bool) -> tuple[list[int] | None, int]:
        """Return the runs, or `None` when an id was there and nothing was done; and how often it was tried."""
        statement = self._caller.statement("enqueue_fresh")
        tries = 0

        async def work(connection: Connection, again: bool) -> Rows | None:
            nonlocal tries
            tries += 1
            async with connection.cursor(binary=True) as cursor:
                try:
                    await cursor.execute(statement, values)
                except psycopg.errors.UniqueViolation:
                    return None
                return await cursor.fetchall()

        rows = await self._caller.run(work, repeatable=repeatable)
        return (None if rows is None else rows[0][0]), tries

    async def _enqueue_any(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str | None, *, repeated: bool = False
    ) -> list[Answer]:
        """Enqueue jobs of every kind. `repeated`: a call whose reply was lost may have enqueued them already."""
        values = arguments.enqueue(self._caller.now(), queue, jobs, conflict, request)
        statement = self._caller.statement("enqueue")
        fresh = all(job.fresh for job in jobs)
        tries = 0

        async def work(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            nonlocal tries
            tries += 1
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(statement, values)
                return await cursor.fetchall()

        rows = await self._caller.run(work, repeatable=fresh or request is not None)
        # An id that was made for this call and is there already came in with a try whose reply was lost.
        return [replies.answer(row, ours=fresh and (repeated or tries > 1)) for row in rows]


def _waits_at_once(job: NewJob) -> bool:
    """True for a job that `enqueue_fresh` takes if no job has its id."""
    return not (job.key or job.dedup or job.delay_ms or job.blockers) and job.run_at_ms is None


def _is_set(job: NewJob) -> bool:
    """True for a small job with a time or a key that meets no other, so that it may share a call."""
    meets = job.dedup or job.blockers or not job.fresh or len(job.payload) > SMALL_BYTES
    return not meets and not _waits_at_once(job)


def _keeps(conflict: Conflict) -> bool:
    """True when a job whose id is there changes nothing."""
    return conflict.on_conflict != "update" and conflict.on_failed != "requeue"
