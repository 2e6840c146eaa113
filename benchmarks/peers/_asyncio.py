"""The verbs of any asyncio system, from the five things that differ between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.script import CostWatch, note_done, require, say, started
from benchmarks.system import PAYLOAD, SLEEP, SLEEPERS, TOIL, Place
from benchmarks.third_party.contract import steady
from benchmarks.trips import trips

Handler = Callable[[str], Awaitable[None]]
"""It is given the data of the job."""
PARTING = 3
"""Seconds that a worker has to stop, once its figure is taken."""


class Peer:
    """One system at one place. `task` is the name of a handler: noop, which carries the payload, or nap."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def open(self) -> None:
        """A producer is connected."""
        raise NotImplementedError

    async def close(self) -> None:
        """It is no longer."""

    async def one(self, data: str) -> Any:
        """One job waits."""
        raise NotImplementedError

    async def many(self, data: str, count: int) -> None:
        """So many wait, by the system's own way, if it has one."""
        for _ in range(count):
            await self.one(data)

    async def call(self) -> Any:
        """One job was enqueued, and its result has come."""
        raise NotImplementedError

    async def work(self, handle: Handler) -> None:
        """A worker with 100 slots calls `handle` for each job until it is cancelled."""
        raise NotImplementedError


def verbs(kind: Callable[[Place], Peer], loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> dict[str, Any]:
    """What `main` needs; a peer's SYSTEMS say which of them make sense."""

    def run(work: Awaitable[Any]) -> Any:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(_wrapped(work))

    def send(place: Place) -> Callable[[], object]:
        runner, peer = asyncio.Runner(loop_factory=loop), kind(place)
        runner.run(peer.open())
        return lambda: runner.run(peer.one(PAYLOAD))

    return {
        "enqueue": lambda place: run(_enqueue(kind(place))),
        "bulk": lambda place: run(_bulk(kind(place), place.jobs)),
        "drain": lambda place: run(_drain(kind, place)),
        "call": lambda place: run(_call(kind(place))),
        "sleep": lambda place: run(_sleep(kind, place)),
        "serve": lambda place: run(_serve(kind(place))),
        "send": send,
        "load": lambda place: run(_load(kind(place))),
        "toil": lambda place: run(_toil(kind(place))),
        "steady": lambda place: run(_steady(kind, place)),
    }


async def _wrapped(work: Awaitable[Any]) -> Any:
    return await work


async def _enqueue(peer: Peer) -> CostWatch:
    await peer.open()
    with CostWatch() as watch:
        for _ in range(peer.place.jobs):
            await peer.one(PAYLOAD)
    await peer.close()
    return watch


async def _bulk(peer: Peer, jobs: int) -> CostWatch:
    await peer.open()
    with CostWatch() as watch:
        await peer.many(PAYLOAD, jobs)
    await peer.close()
    return watch


async def _drain(kind: Callable[[Place], Peer], place: Place) -> CostWatch:
    await _bulk(kind(place), place.jobs)

    async def noop(data: str) -> None: ...

    return await _handled(kind(place), place.jobs, noop)


async def _sleep(kind: Callable[[Place], Peer], place: Place) -> None:
    await _bulk(kind(place), SLEEPERS)

    async def nap(data: str) -> None:
        await asyncio.sleep(SLEEP)

    say(metric="sleep", value=(await _handled(kind(place), SLEEPERS, nap)).seconds)


async def _handled(peer: Peer, jobs: int, handler: Handler) -> CostWatch:
    """Seconds until the last of the jobs was handled."""
    over, done = asyncio.Event(), 0

    async def counted(data: str) -> None:
        nonlocal done
        await handler(data)
        done += 1
        if done >= jobs:
            over.set()

    with CostWatch() as watch:
        working = asyncio.create_task(peer.work(counted))
        waiting = asyncio.create_task(over.wait())
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    require(min(done, jobs), jobs)  # SAQ sweeps a job as it starts, which then runs twice
    working.cancel()
    await asyncio.wait([working], timeout=PARTING)
    return watch


async def _call(peer: Peer) -> None:
    await peer.open()
    await trips(peer.call)
    await peer.close()


async def _serve(peer: Peer) -> None:
    async def handler(data: str) -> None:
        started()

    await peer.work(handler)


async def _load(peer: Peer) -> None:
    await peer.open()
    for number in range(peer.place.jobs):
        await peer.one(str(number))
    await peer.close()


async def _toil(peer: Peer) -> None:
    async def handler(data: str) -> None:
        await asyncio.sleep(TOIL)
        note_done(peer.place, data)

    await peer.work(handler)


async def _steady(kind: Callable[[Place], Peer], place: Place) -> None:
    """For `benchmarks.third_party.scenarios`: one connection enqueues, another works."""
    producer, worker = kind(place), kind(place)
    await producer.open()
    await steady(Halves(producer, worker), kind.__name__.lower())


class Halves:
    """A producer and a worker, which are two of a kind."""

    def __init__(self, producer: Peer, worker: Peer) -> None:
        self.many, self.work = producer.many, worker.work
