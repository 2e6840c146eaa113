"""A producer process of `benchmarks.scale`: ready, it waits for a line, enqueues its share, and says so.

python -m benchmarks.scale.produce HOW JOBS FIRST
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from benchmarks.app import new_runner
from benchmarks.scale.app import calls, made
from benchmarks.script import say


async def produce(how: str, jobs: int, first: int) -> None:
    """`bulk` enqueues by the thousand, `one by one` awaits each job."""
    app, tasks = made()
    async with app:
        await app.queues()  # it is connected
        say(ready=True)
        await asyncio.to_thread(sys.stdin.readline)
        await HOW[how](app, tasks, jobs, first)
    say(done=True)


async def _bulk(app: Any, tasks: list[Any], jobs: int, first: int) -> None:
    await app.enqueue_many(calls(tasks, jobs, first))


async def _one_by_one(app: Any, tasks: list[Any], jobs: int, first: int) -> None:
    from benchmarks.system import PAYLOAD

    for number in range(first, first + jobs):
        await tasks[number % len(tasks)].enqueue(PAYLOAD)


HOW = {"bulk": _bulk, "one by one": _one_by_one}

if __name__ == "__main__":
    with new_runner() as runner:
        runner.run(produce(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
