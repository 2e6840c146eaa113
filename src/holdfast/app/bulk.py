"""Many jobs at once, from a generator, in bounded memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from ..client import Client
from ..client.handle import CoroutineOf
from ..client.options import Prepared
from ..core.bound import MOST_CALL_BYTES
from ..core.done import Done
from ..errors import ConfigError, PayloadError
from ..store.contract import Answer, Conflict, NewJob
from ..telemetry import traces

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
IN_FLIGHT = 2
Group = tuple[str, Conflict]
Chunk = tuple[Group, list[NewJob]]


class Call(Generic[R_co]):
    """A task with its arguments and options: one job that is not enqueued yet."""

    __slots__ = ("job", "options", "queue")

    def __init__(self, queue: str, job: NewJob, options: Prepared) -> None:
        self.queue = queue
        self.job = job
        self.options = options


Calls = Iterable[Call[object]] | AsyncIterable[Call[object]]


class EnqueueCounts(msgspec.Struct, kw_only=True):
    """What became of many jobs."""

    queued: int = 0
    duplicate: int = 0
    completed: int = 0
    updated: int = 0
    successor: int = 0
    requeued: int = 0
    refused: int = 0

    @property
    def total(self) -> int:
        """How many jobs were given."""
        return sum(msgspec.structs.astuple(self))

    def add(self, answers: list[Answer]) -> None:
        """These answers are counted."""
        for answer in answers:
            setattr(self, answer.status, getattr(self, answer.status) + 1)


def enqueue_all(client: Client, calls: Calls, chunk: int, connection: object = None) -> CoroutineOf[EnqueueCounts]:
    """Every call is in the store, or in the transaction of a connection that the caller brings."""
    connection = client.connection(connection)
    if connection is None:
        return _enqueue_all(client, calls, chunk)
    joined = _Joined(client, connection, traces.sending(0))
    chunker = Chunker(chunk, connection)
    if isinstance(calls, AsyncIterable):
        return _join_awaited(joined, chunker.each_of(calls), EnqueueCounts())
    return _join(joined, chunker.each(calls))


async def _enqueue_all(client: Client, calls: Calls, chunk: int) -> EnqueueCounts:
    sending = traces.sending(0)
    with traces.sent(sending):
        counts = await enqueue_part(client, calls, chunk, sending)
        if sending is not None:
            sending.end()
    return counts


async def enqueue_part(client: Client, calls: Calls, chunk: int, sending: traces.Sending | None) -> EnqueueCounts:
    """Every call is in the store, as part of what is sent together. While one chunk is written the next is encoded."""
    counts = EnqueueCounts()
    writing: deque[asyncio.Task[list[Answer]]] = deque()
    try:
        async for (queue, conflict), jobs in Chunker(chunk).each_of(calls):
            writing.append(asyncio.create_task(client.enqueue(queue, jobs, conflict, sending)))
            await asyncio.sleep(0)
            if len(writing) > IN_FLIGHT:
                counts.add(await writing.popleft())
    finally:
        # What was handed over is counted, or raises, even when the generator itself raised; and no chunk is still being
        # written when the caller hears of another's failure.
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            counts.add(outcome)
    return counts


class _Joined:
    """The caller's connection, and the one span of all that is sent in its transaction."""

    def __init__(self, client: Client, connection: object, sending: traces.Sending | None) -> None:
        self._client = client
        self._connection = connection
        self.sending = sending

    def enqueue(self, chunk: Chunk) -> list[Answer] | Awaitable[list[Answer]]:
        """Enqueue a chunk in the transaction."""
        (queue, conflict), jobs = chunk
        return self._client.enqueue_in(self._connection, queue, jobs, conflict, self.sending)

    def end(self) -> None:
        """All of it is sent."""
        if self.sending is not None:
            self.sending.end()


def _join(joined: _Joined, chunks: Iterator[Chunk]) -> CoroutineOf[EnqueueCounts]:
    """On a synchronous connection all of it is done when this returns; an asynchronous one is for the coroutine."""
    counts = EnqueueCounts()
    with traces.sent(joined.sending):
        for chunk in chunks:
            answers = joined.enqueue(chunk)
            if not isinstance(answers, list):
                return _join_awaited(joined, chunks, counts, answers)
            counts.add(answers)
        joined.end()
    return Done(counts)


async def _join_awaited(
    joined: _Joined,
    chunks: Iterator[Chunk] | AsyncIterator[Chunk],
    counts: EnqueueCounts,
    first: Awaitable[list[Answer]] | None = None,
) -> EnqueueCounts:
    with traces.sent(joined.sending):
        if first is not None:
            counts.add(await first)
        async for chunk in _each(chunks):
            answers = joined.enqueue(chunk)
            counts.add(answers if isinstance(answers, list) else await answers)
        joined.end()
    return counts


class Chunker:
    """Gathers jobs in chunks of one queue and one conflict rule, in the order given."""

    def __init__(self, size: int, connection: object = None) -> None:
        if size < 1:
            raise ConfigError(f"chunk={size!r}: at least 1")
        self._size = size
        self._connection = connection
        self._group: Group | None = None
        self._jobs: list[NewJob] = []
        self._bytes = 0
        self._taken = 0

    def each(self, calls: Iterable[Call[object]]) -> Iterator[Chunk]:
        """Yield the chunks."""
        try:
            for call in calls:
                yield from self._take(call)
        except PayloadError as error:
            self._number(error)
            raise
        yield from self._rest()

    async def each_of(self, calls: Calls) -> AsyncIterator[Chunk]:
        """Yield the chunks of calls that may have to be awaited."""
        try:
            async for call in _each(calls):
                for chunk in self._take(call):
                    yield chunk
        except PayloadError as error:
            self._number(error)
            raise
        for chunk in self._rest():
            yield chunk

    def _take(self, call: Call[object]) -> Iterator[Chunk]:
        """The call is in the chunk; one that is full before it is yielded."""
        if call.options.connection is not None and call.options.connection is not self._connection:
            raise ConfigError(
                "enqueue_many: a call brings a connection of its own; give the connection to enqueue_many instead"
            )
        group = (call.queue, call.options.conflict)
        if group != self._group or len(self._jobs) >= self._size or self._bytes >= MOST_CALL_BYTES:
            yield from self._rest()
        self._group = group
        self._jobs.append(call.job)
        self._bytes += len(call.job.payload)
        self._taken += 1

    def _number(self, error: PayloadError) -> None:
        """The error of a call that could not be made says which of all of them it was."""
        if error.index is None:
            error.index = self._taken
            error.add_note(f"entry {self._taken} of enqueue_many, counted from 0")

    def _rest(self) -> Iterator[Chunk]:
        if self._jobs:
            assert self._group is not None
            jobs, self._jobs, self._bytes = self._jobs, [], 0
            yield self._group, jobs


async def _each(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
