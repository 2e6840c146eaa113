"""A producer under torture: `python -m torture.producer SLOT LIFE`. What was acknowledged is in the ledger.

Most jobs go in bulk, with ids, so that a batch whose answer was lost is sent again. Some kinds are sent one by one,
because the answer to each matters.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from typing import Any

from holdfast import Call, Dedup, Task

from . import app as tasks
from .app import app, board, plan
from .board import MADE, STOP, UNFINISHED
from .insist import insist
from .ledger import note, note_all

KEYS = [f"key{n}" for n in range(6)]
LONGEST_REST = 200
SPECIAL = 12
"""Jobs of a batch that are sent one by one, at most."""


class Producer:
    """Makes batch after batch until there are enough jobs, or until it is told to stop."""

    def __init__(self, slot: int, life: int) -> None:
        self._cell = MADE + slot
        self._name = f"p{slot}x{life}"
        self._rng = random.Random(f"{plan.seed}-{slot}-{life}")
        self._numbers = itertools.count()
        self._latest = 0

    async def run(self) -> None:
        """Everything that this producer has to do is done."""
        async with app:
            while not board[STOP] and board[self._cell] < plan.jobs / plan.producers:
                await asyncio.gather(self._batch(), *(self._special() for _ in range(self._rng.randint(1, SPECIAL))))
                await self._rest(plan.batch * plan.producers / plan.rate)

    async def _rest(self, seconds: float) -> None:
        """Keep to the rate, and let the workers catch up."""
        await asyncio.sleep(seconds)
        for _ in range(LONGEST_REST):
            if board[UNFINISHED] <= plan.backlog or board[STOP]:
                return
            await asyncio.sleep(0.05)

    def _id(self) -> str:
        return f"{self._name}-{next(self._numbers)}"

    def _made(self, jobs: int) -> None:
        board[self._cell] += jobs

    # --- in bulk

    async def _batch(self) -> None:
        chosen = [(self._id(), *self._choose()) for _ in range(self._rng.randint(plan.batch // 2, plan.batch * 3 // 2))]
        calls = [self._call(id, task, argument) for id, task, argument in chosen]
        await insist(lambda: app.enqueue_many(calls))
        note_all(("A", task.queue, id, 0, task.name, argument or "-") for id, task, argument in chosen)
        self._made(len(chosen))

    def _call(self, id: str, task: Task[..., Any], argument: Any) -> Call[Any]:
        key = self._rng.choice(KEYS) if task is tasks.keyed else None
        given = () if argument is None else (id if task is tasks.first else argument,)
        return task.options(job_id=id, key=key).args(*given)

    def _choose(self) -> tuple[Task[..., Any], Any]:
        """Return a task that needs no answer of its own, and its argument."""
        rng = self._rng
        if rng.random() < plan.bulk:
            return tasks.plain, rng.randrange(1000)
        seconds = round(rng.choice((0.01, 0.05, 0.1, 0.3)), 2)
        kinds: list[tuple[Task[..., Any], Any, int]] = [
            (tasks.plain, rng.randrange(1000), 8), (tasks.slow, seconds, 6), (tasks.flaky, rng.randint(1, 3), 4),
            (tasks.doomed, None, 2), (tasks.late, None, 1), (tasks.threaded, seconds, 4), (tasks.pooled, seconds, 4),
            (tasks.pooled_late, None, 0.1), (tasks.keyed, seconds / 3, 4), (tasks.first, "", 4),
        ]  # fmt: skip
        task, argument, _ = rng.choices(kinds, [weight for *_, weight in kinds])[0]
        return task, argument

    # --- one by one

    async def _special(self) -> None:
        await self._rng.choice((self._join, self._once, self._update))()

    async def _join(self) -> None:
        """A job that waits for some others."""
        blockers = [self._id() for _ in range(self._rng.randint(1, 4))]
        for id in blockers:
            handle = await insist(lambda id=id: tasks.plain.options(job_id=id).enqueue(1))
            note("A", handle.queue, handle.id, handle.run, "plain", "-")
        which = [("plain", id) for id in blockers]
        waiting = tasks.join.options(job_id=self._id(), blockers=which)
        handle = await insist(lambda: waiting.enqueue(blockers))
        note("A", handle.queue, handle.id, handle.run, "join", ",".join(blockers))
        self._made(len(blockers) + 1)

    async def _once(self) -> None:
        """A job of which there is only one at a time."""
        key = f"only{self._rng.randrange(8)}"
        task = tasks.once.options(dedup=Dedup(key))
        handle = await insist(lambda: task.enqueue(key))
        note("A", handle.queue, handle.id, handle.run, "once", handle.status)
        self._made(handle.status == "queued")

    async def _update(self) -> None:
        """Another dispatch of an id of this producer's, which may be waiting, active or over."""
        self._latest += 1
        number, id = self._latest, f"{self._name}-l{self._latest % 5}"
        task = tasks.latest.options(job_id=id, on_conflict="update", result_ttl=1)
        handle = await insist(lambda: task.enqueue(number))
        note("A", handle.queue, handle.id, handle.run, "latest", number)
        self._made(1)


if __name__ == "__main__":
    asyncio.run(Producer(int(sys.argv[1]), int(sys.argv[2])).run())
