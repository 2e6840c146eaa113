"""Flows whose participants all die: `python flow_app.py URL` makes one flow after another.

Each participant of the nth flow is killed at its nth step, until all get through: who starts it, the worker of each
queue (who delivers, on Redis, what its queue has for others), and who completes a chain from outside. What each came to
is printed, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast import Continued, Flow, Holdfast, Job, JobMissing, Retry
from holdfast.store.postgres.connection.caller import PostgresCaller
from holdfast.store.redis.caller import RedisCaller
from holdfast.store.sqlite.database import Database

ITEMS = 2
APPROVED = 1000
EXPECTED = sum((n + 1) * 10 for n in range(ITEMS)) * 2 + APPROVED
QUEUES = ["a", "b", "c"]
PARTICIPANTS = ["start", *QUEUES, "approve", *QUEUES]
"""Who takes part in a flow, in turn; what is left then is for somebody who survives."""
STEPS = (*range(1, 13), 15, 19)
"""The steps at which participants are killed: every one of the first, which are those of a whole flow."""


def make_app(url: str) -> Holdfast:
    """Return the app of this test: chains from queue to queue, a fan-in, and what comes after it."""
    app = Holdfast(url, retry=Retry(stalls=None, releases=None))

    @app.task(queue="b")
    async def times_ten(n: int) -> int:
        return n * 10

    @app.task(queue="a")
    async def plus_one(job: Job, n: int) -> Continued[int]:
        return job.continue_with(times_ten, n + 1)

    @app.task(queue="people")
    async def approved() -> int:
        raise AssertionError("no worker serves this queue: somebody answers from outside")

    @app.task(queue="a")
    async def ask(job: Job) -> Continued[int]:
        return job.continue_with(approved)

    @app.task(queue="c")
    async def total(job: Job) -> int:
        return sum(each.result for each in await job.blockers())

    return app


def build(app: Holdfast, number: int) -> Flow:
    """Return the nth flow, the same whoever builds it."""
    tasks = app.registry.tasks
    flow = app.flow(f"f{number}")
    group = flow.map(tasks["plus_one"], range(ITEMS), name="item")
    first, second = flow.reduce(group, tasks["total"].args(), name="sum"), flow.reduce(group, tasks["total"].args())
    answer = flow.add(tasks["ask"].args(), name="ask")
    flow.add(tasks["total"].args(), after=[first, second, answer], name="last")
    return flow


def deadly(method: Callable[..., Any], number: int, when: str) -> Callable[..., Any]:
    """Return the method; whoever calls it for the nth time is killed, before or after it is done."""
    calls = iter(range(1, 1_000_000))

    async def call(*args: Any, **kwargs: Any) -> Any:
        mine = next(calls) == number
        if mine and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await method(*args, **kwargs)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


def arm(number: int, when: str) -> None:
    """The nth step that any store of this process takes is its last."""
    for owner, name in ((Database, "write"), (RedisCaller, "call_at"), (PostgresCaller, "_run_here")):
        setattr(owner, name, deadly(getattr(owner, name), number, when))


async def take_part(what: str, url: str, number: int) -> None:
    """Start the flow, answer from outside, or work on one queue until there is nothing to do."""
    app = make_app(url)
    async with app:
        flow = build(app, number)
        if what == "start":
            await flow.start(chunk=4)
        elif what == "approve":
            with suppress(JobMissing):  # who should have started the flow died before it came to this
                await app.complete_chain("a", flow["ask"].id, APPROVED)
        else:
            await app.worker([what], slots=3, lease=0.5, poll=0.1).run(burst=True)


def part(what: str, url: str, number: int, step: int, when: str) -> int:
    """Return how a process ended that took this part: 0, or minus the signal that killed it. Forks cost little."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            arm(step, when)
            asyncio.run(take_part(what, url, number))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sweep(url: str) -> list[tuple[str, int, str, int]]:
    """Return what became of whom: participant, number of the flow and of the step, when, and how it ended."""
    make_app(url)  # whatever that imports, no child has to
    ends = []
    for number in STEPS:
        codes = []
        for index, what in enumerate(PARTICIPANTS):
            when = "before" if (number + index) % 2 else "after"
            # Who answers from outside has few steps, and only once there is something to answer.
            step = 1 + number % 3 if what == "approve" else number
            codes.append(part(what, url, number, step, when))
            ends.append((what, number, when, codes[-1]))
        if not any(codes):
            break
    return ends


if __name__ == "__main__":
    print(json.dumps(sweep(sys.argv[1])))
