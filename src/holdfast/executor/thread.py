"""Handlers in threads of the worker's own process, which cannot be killed."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue

from .at_work import Key, at_work
from .shortage import CannotStart

Errand = tuple[Callable[[], object], asyncio.AbstractEventLoop, asyncio.Future[object]]


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

    async def run(
        self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], key: Key | None = None
    ) -> object:
        """Return what the handler returns. An `async def` handler gets an event loop of its own.

        Until it has returned, its `key` is marked as running in this process.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        call = partial(contextvars.copy_context().run, called, fn, args, kwargs)
        self._under_way += 1
        try:
            if self._started < min(self._under_way, self._most):
                self._start_one()
            if key is not None:  # from here on, it is a thread's to leave
                call = partial(_leaving, at_work.enter(key), call)
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
        """End the threads; those whose handlers still run end when these return."""
        for _ in range(self._started):
            self._inbox.put(None)
        self._started = 0
        self._inbox = SimpleQueue()


def _serve(inbox: SimpleQueue[Errand | None]) -> None:
    while (errand := inbox.get()) is not None:
        call, loop, future = errand
        result: object = None
        error: BaseException | None = None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(_resolve, future, result, error)
        except RuntimeError:
            pass  # the loop is closed, and no task waits for it
        del errand, call, loop, future, result, error  # hold nothing while idle


def _resolve(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _leaving(leave: Callable[[], None], call: Callable[[], object]) -> object:
    try:
        return call()
    finally:
        leave()


def called(fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Return what a handler returns that is called in this thread."""
    try:
        outcome = fn(*args, **kwargs)
        return asyncio.run(_awaited(outcome)) if inspect.isawaitable(outcome) else outcome
    except StopIteration as raised:
        raise RuntimeError("the handler raised StopIteration") from raised  # which no future can hold


async def _awaited(outcome: Awaitable[object]) -> object:
    return await outcome
