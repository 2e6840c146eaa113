"""One thin facade for code without an event loop: `app.sync(send.enqueue(...))`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import Protocol, TypeVar

from .errors import ConfigError

T = TypeVar("T")


class Openable(Protocol):
    """What is opened and closed with the facade."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop in which it is open."""

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
        while True:
            try:
                yield self(anext(items))
            except StopAsyncIteration:
                return

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
        self._thread = threading.Thread(target=loop.run_forever, name="holdfast-sync", daemon=True)
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
        loop.close()

    def __enter__(self) -> Sync:
        self._running_loop()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
