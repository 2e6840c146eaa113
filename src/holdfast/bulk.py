"""Many jobs at once, from a generator, in bounded memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from .client import Client
from .errors import ConfigError
from .store.contract import Answer, Conflict, NewJob

if TYPE_CHECKING:
    from .task import Call

IN_FLIGHT = 2
Group = tuple[str, Conflict, Any]


class Counts(msgspec.Struct, kw_only=True):
    """What became of many jobs."""

    queued: int = 0
    duplicate: int = 0
    completed: int = 0
    updated: int = 0
    successor: int = 0
    requeued: int = 0

    @property
    def total(self) -> int:
        """How many jobs were given."""
        return sum(msgspec.structs.astuple(self))

    def add(self, answers: list[Answer]) -> None:
        """These answers are counted."""
        for answer in answers:
            setattr(self, answer.status, getattr(self, answer.status) + 1)


async def enqueue_all(client: Client, calls: Iterable[Call[Any]] | AsyncIterable[Call[Any]], chunk: int) -> Counts:
    """Every call is in the store. While one chunk is written the next is encoded."""
    if chunk < 1:
        raise ConfigError(f"chunk={chunk!r}: at least 1")
    counts = Counts()
    writing: deque[asyncio.Task[list[Answer]]] = deque()
    try:
        async for (queue, conflict, connection), jobs in _chunks(calls, chunk):
            if connection is not None:  # a caller's connection does one thing at a time
                counts.add(await client.enqueue(queue, jobs, conflict, connection))
                continue
            writing.append(asyncio.create_task(client.enqueue(queue, jobs, conflict)))
            await asyncio.sleep(0)
            if len(writing) > IN_FLIGHT:
                counts.add(await writing.popleft())
    finally:
        # What was handed over is counted, or raises, even when the generator itself raised.
        for task in writing:
            counts.add(await task)
    return counts


async def _chunks(
    calls: Iterable[Call[Any]] | AsyncIterable[Call[Any]], chunk: int
) -> AsyncIterator[tuple[Group, list[NewJob]]]:
    """Yield jobs in chunks of one queue and one conflict rule, in the order given."""
    group: Group | None = None
    jobs: list[NewJob] = []
    async for call in _each(calls):
        theirs = (call.queue, call.prepared.conflict, call.prepared.connection)
        if jobs and (theirs != group or len(jobs) >= chunk):
            assert group is not None
            yield group, jobs
            jobs = []
        group = theirs
        jobs.append(call.job)
    if jobs:
        assert group is not None
        yield group, jobs


async def _each(calls: Iterable[Call[Any]] | AsyncIterable[Call[Any]]) -> AsyncIterator[Call[Any]]:
    if isinstance(calls, AsyncIterable):
        async for call in calls:
            yield call
    else:
        for call in calls:
            yield call
