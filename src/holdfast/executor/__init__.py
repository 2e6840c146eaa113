"""Where a handler runs: in the event loop, in a thread, or in a process that may be a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..store.contract import BlockerRecord, Lease
from ..task import Task
from .inline import run_inline
from .place import handler_of
from .process.pool import Pool, PoolOptions
from .process.wire import Handler
from .thread import ThreadExecutor

__all__ = ["Executors", "Pool", "PoolOptions", "ThreadExecutor", "run_inline"]


class Executors:
    """What a worker runs handlers with, besides its own loop."""

    def __init__(
        self, threads: ThreadExecutor, pool: Pool, blockers: Callable[[Lease], Awaitable[list[BlockerRecord]]]
    ) -> None:
        self.blockers = blockers
        self.threads = threads
        self.pool = pool
        self.in_place = False
        """Handlers that belong in processes run here instead, for tests."""
        self._handlers: dict[str, Handler] = {}

    def handler(self, task: Task[Any, Any]) -> Handler:
        """Return how a process finds what runs a task."""
        if task.name not in self._handlers:
            self._handlers[task.name] = handler_of(task)
        return self._handlers[task.name]
