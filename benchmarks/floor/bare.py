"""A bare call: what our enqueue asks of Redis, asked with nothing round it.

The commands are those that Holdfast itself would send, one for each job with its own id: they are taken from it before
the watch starts, and then sent one after the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.app import application, run
from benchmarks.script import CostWatch, main, require
from benchmarks.system import PAYLOAD, Place, System

SYSTEMS = (System(name="bare call", script=__name__, store="redis", measures=("enqueue",)),)


def enqueue(place: Place) -> CostWatch:
    return run(_enqueue(place))


async def _enqueue(place: Place) -> CostWatch:
    app, noop = application(place)
    async with app:
        await noop.enqueue(PAYLOAD)
        commands = await taken(app, noop, place.jobs)
        ask = await asker(app, place)
        with CostWatch() as watch:
            for command in commands:
                await ask(command)
        waiting = sum(queue.counts["waiting"] for queue in await app.queues())
    require(waiting, place.jobs + 2)
    return watch


async def taken(app: Any, noop: Any, jobs: int) -> list[list[Any]]:
    """The commands of so many enqueues, which were not sent; only one more was, for its answer."""
    server = app.store.server
    commands: list[list[Any]] = []
    answers: list[Any] = []
    really = server.ask

    async def keep(command: list[Any], key: str | None, **options: Any) -> Any:
        if not answers:
            answers.append(await really(command, key, **options))
        else:
            commands.append(command)
        return answers[0]

    server.ask = keep
    try:
        for _ in range(jobs + 1):
            await noop.enqueue(PAYLOAD)
    finally:
        del server.ask
    return commands


async def asker(app: Any, place: Place) -> Callable[[list[Any]], Awaitable[Any]]:
    """By our own connection, or by a client of redis-py."""
    if place.variant == "redis-py":
        import redis.asyncio

        client: Any = redis.asyncio.Redis.from_url(place.url, single_connection_client=True)
        return lambda command: client.execute_command(*command)
    link = await app.store.server.nodes.having(None)
    return lambda command: link.send([command])


if __name__ == "__main__":
    main(globals())
