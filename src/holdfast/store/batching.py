"""What many tasks ask at once is asked in one call: whatever comes while one is under way goes with the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Q = TypeVar("Q")
A = TypeVar("A")


def together(items: Sequence[Q], size: Callable[[Q], int], largest: int) -> int:
    """Return how many of the first items go in one call: those that have so many bytes in all, and at least one."""
    total = 0
    for index, item in enumerate(items):
        total += size(item)
        if total > largest and index:
            return index
    return len(items)


class InTurn(Generic[K]):
    """Calls of one event loop about the same thing are made one after the other, in the order in which they began."""

    def __init__(self) -> None:
        self._latest: dict[K, asyncio.Future[None]] = {}
        """By thing: done when the latest call about it is over. A thing that nobody calls about is not there."""

    async def call(self, thing: K, work: Callable[[], Awaitable[A]]) -> A:
        """Return what the work returns, once every earlier call about this is over, however it ended."""
        before = self._latest.get(thing)
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._latest[thing] = mine
        try:
            if before is not None:
                await asyncio.wait([before])  # which leaves it alone when this call is cancelled
            return await work()
        finally:
            if before is None or before.done():
                self._end(thing, mine)
            else:  # cancelled while it waited: who comes after this one waits for those before it
                before.add_done_callback(lambda _: self._end(thing, mine))

    def _end(self, thing: K, call: asyncio.Future[None]) -> None:
        call.set_result(None)
        if self._latest.get(thing) is call:
            del self._latest[thing]


class Gather(Generic[K, Q, A]):
    """Asks `work` with questions of the same kind. One that is alone goes at once.

    At most so many go together; and where `size` tells how large each is, those that are not too large together. With
    `lingers`, the first question after a call of several waits until the loop has gone round: those who were answered
    together ask together again, and the first of them would go alone.
    """

    def __init__(
        self,
        work: Callable[[K, Sequence[Q]], Awaitable[Sequence[A]]],
        most: int,
        size: Callable[[Q], int] = lambda question: 0,
        largest: int = 0,
        lingers: bool = False,
    ) -> None:
        self._work = work
        self._most = most
        self._size = size
        self._largest = largest
        self._lingers = lingers
        self._crowded: set[K] = set()
        """The kinds of which the latest call had several questions."""
        self._waiting: dict[K, list[tuple[Q, asyncio.Future[A] | None]]] = {}
        """By kind, while a call is under way: what has come since."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, kind: K, question: Q) -> A:
        """Return the answer to one question."""
        if self.is_free(kind):
            self._waiting[kind] = []
            try:
                return (await self._work(kind, [question]))[0]
            finally:
                self._go_on(kind)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self.put(kind, question, future)
        return await future

    def is_free(self, kind: K) -> bool:
        """Return whether a question would be asked at once, and alone."""
        return kind not in self._waiting and kind not in self._crowded

    def put(self, kind: K, question: Q, future: asyncio.Future[A] | None = None) -> None:
        """Ask a question with others of its kind. Without a future, `work` itself tells who asked."""
        waiting = self._waiting.get(kind)
        if waiting is None:
            waiting = self._waiting[kind] = []
            asyncio.get_running_loop().call_soon(self._go_on, kind)
        waiting.append((question, future))

    def _go_on(self, kind: K) -> None:
        """What has come meanwhile is asked next."""
        waiting = self._waiting.pop(kind)
        if not waiting:
            return
        count = together(waiting[: self._most], lambda each: self._size(each[0]), self._largest)
        batch, self._waiting[kind] = waiting[:count], waiting[count:]
        if not self._lingers:
            pass
        elif count > 1:
            self._crowded.add(kind)
        else:
            self._crowded.discard(kind)
        task = asyncio.get_running_loop().create_task(self._ask_all(kind, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_all(self, kind: K, batch: list[tuple[Q, asyncio.Future[A] | None]]) -> None:
        try:
            answers = await self._work(kind, [question for question, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if future is not None and not future.done():
                    future.set_exception(error)
                    future.exception()  # a caller that was cancelled does not listen any more
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if future is not None and not future.done():
                    future.set_result(answer)
        finally:
            self._go_on(kind)


class LoopGather(Generic[K, Q, A]):
    """The same for a store that is asked from several event loops: one of them gathers, others ask by themselves."""

    def __init__(
        self,
        work: Callable[[K, Sequence[Q]], Awaitable[Sequence[A]]],
        most: int,
        size: Callable[[Q], int] = lambda question: 0,
        largest: int = 0,
    ) -> None:
        self._work = work
        self._make = partial(Gather[K, Q, A], work, most, size, largest, lingers=True)
        self._gather = self._make()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, kind: K, question: Q) -> A:
        """Return the answer to one question."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                return (await self._work(kind, [question]))[0]
            self._loop, self._gather = loop, self._make()
        return await self._gather.ask(kind, question)
