"""One thin facade for code without an event loop: `app.sync(send.enqueue(...))`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import suppress
from typing import Protocol, TypeVar

from ..errors import ConfigError
from ..store.contract import Store

T = TypeVar("T")


class Openable(Protocol):
    """What is opened and closed with the facade."""

    loop: asyncio.AbstractEventLoop | None
    """The loop in which it is open."""
    store: Store

    async def open(self) -> object:
        """It can be used."""

    async def close(self) -> None:
        """It is closed."""


class Sync:
    """Runs coroutines of the app to their end, from any thread that has no event loop.

    Where the app is open in an event loop already (in a worker, say), they run there. Otherwise the facade
    opens the app in a thread of its own, at the first call; close it with `app.sync.close()` or `with app.sync:`.
    """

    def __init__(self, app: Openable) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __call__(self, awaitable: Awaitable[T]) -> T:
        """Return what the coroutine returns."""
        try:
            self._refuse_in_loop()
            loop = self._running_loop()
        except BaseException:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise
        return asyncio.run_coroutine_threadsafe(_awaited(awaitable), loop).result()

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield from an asynchronous iterator, such as `app.events()`."""
        try:
            while True:
                try:
                    yield self(anext(items))
                except StopAsyncIteration:
                    return
        finally:
            self._dismiss(items)

    def _dismiss(self, items: AsyncIterator[object]) -> None:
        """An iterator that was left half-way is closed, where its loop still runs."""
        if isinstance(items, AsyncGenerator) and (self._loop or self._app.loop) is not None:
            with suppress(ConfigError):  # collected inside an event loop, which will close it itself
                self(items.aclose())

    def _refuse_in_loop(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise ConfigError("app.sync(...) was called inside an event loop, which it would block: use await")

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._app.loop is not None:
            return self._app.loop
        with self._lock:
            if self._loop is None:
                self._start()
            assert self._loop is not None
            return self._loop

    def _start(self) -> None:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(loop,), name="holdfast-sync", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._app.open(), loop).result()
        except BaseException:
            self._end(loop)
            raise
        self._loop = loop

    def close(self) -> None:
        """The app and the facade's thread are closed."""
        with self._lock:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(self._app.close(), self._loop).result()
                self._end(self._loop)
                self._loop = None

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(loop.stop)
        assert self._thread is not None
        self._thread.join()

    def __enter__(self) -> Sync:
        self._running_loop()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, and leave nothing of it behind."""
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _cancel_others() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
