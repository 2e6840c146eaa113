"""Enqueues under way that their callers did not wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..core.bound import MOST_ERRORS_KEPT, MOST_UNAWAITED
from ..errors import ConfigError, PendingFull

T = TypeVar("T")


class Pending:
    """The enqueues of one client that are under way, and what went wrong with those that have ended."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Future[Any], None] = {}
        self._errors: list[Exception] = []
        self._failed = 0

    def add(self, enqueue: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Begin an enqueue; what are begun together share calls, in this order."""
        try:
            task = self._loop().create_task(enqueue)
        except BaseException:
            enqueue.close()
            raise
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _loop(self) -> asyncio.AbstractEventLoop:
        if len(self._tasks) >= MOST_UNAWAITED:
            raise PendingFull(
                f"enqueue_nowait: {MOST_UNAWAITED:,} jobs are on their way to the store, which is the most; "
                "await app.flush() now and then, or use enqueue_many"
            )
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigError(
                "enqueue_nowait: this thread has no event loop; use app.sync(task.enqueue(...))"
            ) from None

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._failed += 1
        if len(self._errors) < MOST_ERRORS_KEPT and isinstance(error, Exception):
            self._errors.append(error)

    async def flush(self) -> None:
        """Return once every enqueue that was begun in this loop has ended; raise what has gone wrong meanwhile."""
        loop = asyncio.get_running_loop()
        if under_way := [task for task in self._tasks if task.get_loop() is loop]:
            await asyncio.wait(under_way)
            await asyncio.sleep(0)  # each then tells how it ended
        errors, failed, self._errors, self._failed = self._errors, self._failed, [], 0
        if errors:
            raise ExceptionGroup(f"jobs of enqueue_nowait that are not in the store: {failed:,}", errors)
