"""One torture of one store: start everybody, let the monkeys loose, let everything come to its end, and judge."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast import Holdfast
from holdfast.core.state import UNFINISHED

from . import ledger
from .board import MADE, STOP, Board, app_at
from .crew import Crew
from .disk import Disk
from .field import Field
from .insist import insist
from .monkey import Monkey, kinds
from .place import make_place
from .plan import Plan
from .verdict import Verdict, judge

LOOK = 0.5


class NoServer(Exception):
    """The store's server is not installed here."""


@asynccontextmanager
async def staged(plan: Plan) -> AsyncIterator[Field]:
    """Everybody is at work; nobody and nothing is left afterwards, whatever happens."""
    for folder in ("ledger", "logs"):
        (plan.path / folder).mkdir(parents=True)
        os.chmod(plan.path / folder, 0o777)
    plan.save()
    ledger.open_ledger(plan.path, "director")
    board = Board(plan.path / "board")
    disk = Disk(plan.path / "disk", plan.disk_mb)
    place = None
    try:
        place = make_place(plan.store, disk, f"history={plan.history}", plan.path / "board")
        if place is None:
            raise NoServer(plan.store)
        await asyncio.to_thread(place.start)
        crew = Crew(plan, place)
        try:
            await crew.start()
            yield Field(plan, place, crew, board, random.Random(plan.seed))
        finally:
            await crew.close()
    finally:
        if place is not None:
            place.close()
        disk.close()


async def torture(plan: Plan) -> Verdict:
    """Return what became of the store's promises."""
    began = time.monotonic()
    async with staged(plan) as field:
        left_out = await _attack(field)
        attacked = time.monotonic() - began
        stuck = await _come_to_an_end(field)
        verdict = await judge(field, stuck)
        verdict.left_out, verdict.attacked, verdict.seconds = left_out, attacked, time.monotonic() - began
        return verdict


async def _attack(field: Field) -> dict[str, str]:
    """Faults happen until there are enough jobs, or the time is over; return which could not be tried, and why."""
    processes, store, left_out = kinds(field.place)
    wanted = field.plan.faults or [*processes, *store]
    monkeys = [
        Monkey(field, name, {kind: fault for kind, fault in faults.items() if kind in wanted})
        for name, faults in (("processes", processes), ("store", store))
    ]
    loose = [asyncio.create_task(monkey.run()) for monkey in monkeys]
    try:
        deadline = time.monotonic() + field.plan.seconds
        while time.monotonic() < deadline and made(field) < field.plan.jobs:
            done, _ = await asyncio.wait(loose, timeout=LOOK, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    finally:
        for task in loose:
            task.cancel()
        await asyncio.gather(*loose, return_exceptions=True)
    return left_out


def made(field: Field) -> int:
    """Return how many jobs the producers have made."""
    return sum(field.board[MADE + slot] for slot in range(field.plan.producers))


async def _come_to_an_end(field: Field) -> list[str]:
    """Everything that was enqueued has ended, and everybody has gone; return what has not."""
    field.board[STOP] = 1
    crew, patience = field.crew, field.plan.quiesce
    await asyncio.to_thread(field.place.start)
    stuck = [f"{name} did not end" for name in await crew.ended("producer", patience)]
    app = app_at(field.place.url(None), field.board)
    async with app:
        await insist(lambda: app.schedules.pause("pulse", queue="tick"))
        stuck += await _settled(app, patience)
    stuck += [f"{name} did not end: somebody has no answer" for name in await crew.ended("caller", patience)]
    stuck += [f"{name} did not end" for name in await crew.ended("worker", patience, signal.SIGTERM)]
    stuck += [f"{name} did not end" for name in await crew.ended("reader", patience, signal.SIGTERM)]
    return stuck


async def _settled(app: Holdfast, patience: float) -> list[str]:
    """Nothing is unfinished any more; return what is, when the patience is over."""
    deadline = time.monotonic() + patience
    while True:
        left = {
            f"{queue.name} {state}": queue.counts[state]
            for queue in await insist(app.queues)
            for state in UNFINISHED
            if queue.counts.get(state)
        }
        if not left:
            return []
        if time.monotonic() > deadline:
            return [f"after {patience:g} s there is still {left}"]
        await asyncio.sleep(LOOK)
