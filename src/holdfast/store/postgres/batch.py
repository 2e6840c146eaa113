"""Calls that come while one is under way go together in the next: one round trip for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MOST = 500
"""So many entries go in one call at the most."""


class Batch(Generic[K, V]):
    """Answers entries in the order in which they came; idle, each goes at once and alone."""

    def __init__(self, work: Callable[[Sequence[K]], Awaitable[Sequence[V]]]) -> None:
        self._work = work
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._task: asyncio.Task[None] | None = None

    async def call(self, entry: K) -> V:
        """Return the answer to one entry."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._answer(batch)
        finally:
            self._task = None

    async def _answer(self, batch: Sequence[tuple[K, asyncio.Future[V]]]) -> None:
        wanted = [(entry, future) for entry, future in batch if not future.done()]
        try:
            answers = await self._work([entry for entry, _ in wanted])
        except Exception as error:
            for _, future in wanted:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(wanted, answers, strict=True):
            if not future.done():
                future.set_result(answer)
