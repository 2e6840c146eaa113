"""A flow whose participants all die: `python flow_app.py start|work URL N before|after` is killed at its Nth step."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from holdfast import Continued, Flow, Holdfast, Job, Retry

ITEMS = 5
EXPECTED = sum((n + 1) * 10 for n in range(ITEMS)) * 2


def make_app(url: str) -> Holdfast:
    """Return the app of this test: chains from queue to queue, a fan-in, and what comes after it."""
    app = Holdfast(url, retry=Retry(stalls=None, releases=None))

    @app.task(queue="b")
    async def times_ten(n: int) -> int:
        return n * 10

    @app.task(queue="a")
    async def plus_one(job: Job, n: int) -> Continued[int]:
        return job.continue_with(times_ten, n + 1)

    @app.task(queue="c")
    async def total(job: Job) -> int:
        return sum(each.result for each in await job.blockers())

    return app


def build(app: Holdfast) -> Flow:
    """Return the flow, the same whoever builds it."""
    tasks = app.registry.tasks
    flow = app.flow("f")
    group = flow.map(tasks["plus_one"], range(ITEMS), name="item")
    first, second = flow.reduce(group, tasks["total"].args(), name="sum"), flow.reduce(group, tasks["total"].args())
    flow.add(tasks["total"].args(), after=[first, second], name="last")
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
    from holdfast.store.postgres.calling import Calling
    from holdfast.store.redis.server import Server
    from holdfast.store.sqlite import SqliteStore

    for owner, name in ((SqliteStore, "_write"), (Server, "call"), (Calling, "_insist_here")):
        setattr(owner, name, deadly(getattr(owner, name), number, when))


async def main(what: str, url: str) -> None:
    """Start the flow, or work until there is nothing to do."""
    app = make_app(url)
    async with app:
        if what == "start":
            await build(app).start(chunk=4)
        else:
            await app.worker(["a", "b", "c"], slots=3, lease=0.5, poll=0.1).run(burst=True)


if __name__ == "__main__":
    arm(int(sys.argv[3]), sys.argv[4])
    asyncio.run(main(sys.argv[1], sys.argv[2]))
