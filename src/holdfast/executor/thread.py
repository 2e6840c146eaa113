"""thread: the handler runs in a thread of the worker's pool, and cannot be killed."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any


class ThreadExecutor:
    """As many threads as the worker has slots, started when they are first needed."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the handler returns. An `async def` handler gets an event loop of its own."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="holdfast-handler")
        context = contextvars.copy_context()
        call = partial(context.run, _call, fn, args, kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """No new handler starts; those that still run are left to end by themselves."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    outcome = fn(*args, **kwargs)
    return asyncio.run(_awaited(outcome)) if inspect.isawaitable(outcome) else outcome


async def _awaited(outcome: Any) -> Any:
    return await outcome
