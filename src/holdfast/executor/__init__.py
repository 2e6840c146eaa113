"""Where a handler runs: in the event loop, in a thread, or in a process that may be a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..app.task import AnyTask
from ..store.contract import BlockerRecord, Lease
from .at_work import Key
from .call import run_inline
from .import_path import handler_path
from .process.frames import HandlerPath
from .process.pool import PoolOptions, ProcessPool
from .thread import ThreadExecutor

__all__ = ["Executors", "PoolOptions", "ProcessPool", "ThreadExecutor", "run_inline"]


class Executors:
    """The threads and the pool of processes in which a worker runs handlers."""

    def __init__(
        self,
        threads: ThreadExecutor,
        pool: ProcessPool,
        blockers: Callable[[Lease], Awaitable[list[BlockerRecord]]],
        store_url: str = "",
    ) -> None:
        self.blockers = blockers
        self._store_url = store_url
        self.threads = threads
        self.pool = pool
        self.in_place = False
        """Handlers that belong in processes run here instead, for tests."""
        self._handlers: dict[str, HandlerPath] = {}

    def key(self, lease: Lease) -> Key:
        """Return by what this process knows the handler of a job."""
        return self._store_url, lease.queue, lease.id

    def handler(self, task: AnyTask) -> HandlerPath:
        """Return how a process finds what runs a task."""
        if task.name not in self._handlers:
            self._handlers[task.name] = handler_path(task)
        return self._handlers[task.name]
