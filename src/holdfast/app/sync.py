"""One thin facade for code without an event loop: `app.sync(send.enqueue(...))`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import suppress
from typing import TypeVar

from ..core.done import Done
from ..errors import ConfigError
from .home import Home, Openable

T = TypeVar("T")


class Sync:
    """Runs coroutines of the app to their end, from any thread that has no event loop.

    Where the app is open in an event loop already (in a worker, say), they run there. Otherwise the facade
    opens the app in a thread of its own, at the first call; close it with `app.sync.close()` or `with app.sync:`.
    """

    def __init__(self, app: Openable) -> None:
        self._app = app
        self.home = Home(app)
        """Where the app is open when nobody has opened it."""
        self._held = 0

    def __call__(self, awaitable: Awaitable[T]) -> T:
        """Return what the coroutine returns."""
        if isinstance(awaitable, Done):  # taken in by a connection of the caller's, whose locks an opening could meet
            known: T = awaitable.result
            return known
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
        if isinstance(items, AsyncGenerator) and self._app.loop is not None:
            with suppress(ConfigError):  # collected inside an event loop, which will close it itself
                self(items.aclose())

    def _refuse_in_loop(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise ConfigError("app.sync(...) was called inside an event loop, which it would block: use await")

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._app.loop is not None and not self.home.is_open:
            return self._app.loop
        try:
            return self.home.start().result()
        except ConfigError:
            if (loop := self._app.loop) is None:
                raise
            return loop  # somebody was quicker, and has it open elsewhere

    def close(self) -> None:
        """The app and the facade's thread are closed."""
        self.home.close()

    def __enter__(self) -> Sync:
        self._running_loop()
        self._held += 1
        return self

    def __exit__(self, *exc: object) -> None:
        self._held -= 1
        self.close()

    @property
    def is_held(self) -> bool:
        """True in a block of `with app.sync:`, which must not lose the app to another event loop."""
        return self._held > 0


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
