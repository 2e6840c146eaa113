"""thread: the handler runs in a thread of the worker's pool, and cannot be killed."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from .trouble import CannotStart

Errand = tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[Any]]


class ThreadExecutor:
    """As many threads as the worker has slots, started when they are first needed.

    They are daemons: a handler that never returns must not keep a process alive whose worker has ended,
    as the threads of `concurrent.futures` would.
    """

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._started = 0
        self._under_way = 0
        self._inbox: SimpleQueue[Errand | None] = SimpleQueue()

    async def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the handler returns. An `async def` handler gets an event loop of its own."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        call = partial(contextvars.copy_context().run, called, fn, args, kwargs)
        self._under_way += 1
        try:
            if self._started < min(self._under_way, self._most):
                self._start_one()
            self._inbox.put((call, loop, future))
            return await future
        finally:
            self._under_way -= 1

    def _start_one(self) -> None:
        name = f"holdfast-handler-{self._started + 1}"
        try:
            threading.Thread(target=_serve, args=(self._inbox,), name=name, daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            raise CannotStart(f"no thread could be started: {error}") from error
        self._started += 1

    def close(self) -> None:
        """The threads end; those whose handlers still run, when these return."""
        for _ in range(self._started):
            self._inbox.put(None)
        self._started = 0
        self._inbox = SimpleQueue()


def _serve(inbox: SimpleQueue[Errand | None]) -> None:
    while (errand := inbox.get()) is not None:
        call, loop, future = errand
        result: Any = None
        error: BaseException | None = None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(_resolve, future, result, error)
        except RuntimeError:
            pass  # the loop is closed: nobody waits for it any more
        del errand, call, loop, future, result, error  # hold nothing while idle


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def called(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a handler returns that is called in this thread."""
    try:
        outcome = fn(*args, **kwargs)
        return asyncio.run(_awaited(outcome)) if inspect.isawaitable(outcome) else outcome
    except StopIteration as raised:
        raise RuntimeError("the handler raised StopIteration") from raised  # which no future can hold


async def _awaited(outcome: Any) -> Any:
    return await outcome
