"""Queues and workers as they were a moment ago: read once a second, however many ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..app.app import Holdfast
from ..store.contract import QueueInfo, SessionInfo

T = TypeVar("T")
FRESH = 1.0
"""What was read is good for so many seconds."""


class Shared(Generic[T]):
    """A reading that many want: one caller reads, those who come meanwhile or soon after get the same."""

    def __init__(self, read: Callable[[], Awaitable[T]], fresh: float = FRESH) -> None:
        self._read = read
        self._fresh = fresh
        self._at = float("-inf")
        self._value: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Return what was read within the last second, or read it."""
        found = self._value
        if found is None or (found.done() and self._stale(found)):
            found = self._value = asyncio.ensure_future(self._read())
            self._at = time.monotonic()
        return await asyncio.shield(found)

    def _stale(self, found: asyncio.Future[T]) -> bool:
        failed = found.cancelled() or found.exception() is not None
        return failed or time.monotonic() - self._at > self._fresh

    def forget(self) -> None:
        """Read anew when it is asked for next: something was changed."""
        self._value = None

    def close(self) -> None:
        """Give up a reading that is under way: its store may be away."""
        if self._value is not None:
            self._value.cancel()


class Glance:
    """What pages and the API show of the whole store, shared by all callers."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._queues: Shared[tuple[list[QueueInfo], int]] = Shared(self._read_queues)
        self._workers: Shared[list[SessionInfo]] = Shared(app.workers)

    async def _read_queues(self) -> tuple[list[QueueInfo], int]:
        return await self._app.queues(), await self._app.store.now_ms()

    async def queues(self) -> tuple[list[QueueInfo], int]:
        """Return every queue, and the store's time at which they were read."""
        return await self._queues.get()

    async def workers(self) -> list[SessionInfo]:
        """Return every worker."""
        return await self._workers.get()

    def forget(self) -> None:
        """Something was changed: whoever did it must see it."""
        self._queues.forget()
        self._workers.forget()

    def close(self) -> None:
        """Read no more."""
        self._queues.close()
        self._workers.close()
