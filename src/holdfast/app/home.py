"""The home of an app that its callers use without opening it: an event loop in a thread, for the whole process.

It starts with the first call, whatever loop or thread that comes from, and ends with `app.close()`, with
`app.sync.close()`, with an `async with app:` elsewhere, or with the process. A fork leaves it to the parent.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from ..errors import ConfigError, StoreClosed
from ..store.contract import Store

log = logging.getLogger("holdfast")
LAST_MOMENTS = 3.0
"""How long the end of the interpreter waits for an app to be closed, in seconds."""
_homes: weakref.WeakSet[Home] = weakref.WeakSet()


class Openable(Protocol):
    """What is opened and closed in a loop."""

    loop: asyncio.AbstractEventLoop | None
    """The loop in which it is open."""
    store: Store

    async def open(self) -> object:
        """It can be used."""

    async def close(self) -> None:
        """It is closed."""


class Home:
    """A thread with an event loop in which the app is open. It may be started again after its end."""

    def __init__(self, app: Openable) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._opening: Future[asyncio.AbstractEventLoop] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finalizer: weakref.finalize[..., Home] | None = None
        """Ends the thread of an app that was dropped unclosed."""

    @property
    def is_open(self) -> bool:
        """True from the first call on, until it is closed."""
        return self._opening is not None

    @property
    def has_it_open(self) -> bool:
        """True where the app is open here, or about to be, and not in another event loop whose caller was quicker."""
        return self.is_open and self._app.loop is self._loop

    def start(self) -> Future[asyncio.AbstractEventLoop]:
        """Return the loop to come, in which the app is open; the first who asks starts it."""
        with self._lock:
            if self._opening is None:
                loop = self._loop = asyncio.new_event_loop()
                opening = self._opening = asyncio.run_coroutine_threadsafe(self._open(loop), loop)
                opening.add_done_callback(self._opened)
                _homes.add(self)
                # Only now: whoever sees the app's loop sees that it is still being opened, too.
                self._thread = threading.Thread(target=_serve, args=(loop,), name="holdfast-sync", daemon=True)
                self._thread.start()
                return opening
            return self._opening

    async def _open(self, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        try:
            await self._app.open()
        except BaseException:
            loop.call_soon(loop.stop)
            raise
        log.debug("app_opened: nobody had opened the app, so that it is open in a thread of its own")
        self._finalizer = weakref.finalize(self, _abandon, loop, self._app.store)
        self._finalizer.atexit = False
        return loop

    def _opened(self, opening: Future[asyncio.AbstractEventLoop]) -> None:
        """Have the next call try again, if the app could not be opened."""
        if opening.exception() is not None and self._opening is opening:
            self._opening = None

    async def open(self) -> None:
        """Have the app open for a call from whatever loop, unless somebody has opened it, or is about to."""
        if self._opening is None and self._app.loop is not None:
            return
        if asyncio.get_running_loop() is self._loop:  # it ends: whoever waited here for that would keep it from ending
            raise StoreClosed(
                "the app was closed while this call was on its way; close it after its callers have ended"
            )
        try:
            await asyncio.shield(asyncio.wrap_future(self.start()))
        except ConfigError:
            if self._app.loop is None:
                raise  # else somebody was quicker, and has it open elsewhere

    def close(self, patience: float | None = None) -> None:
        """Close the app and end the thread, if it was started."""
        with self._lock:
            opening, self._opening, thread = self._opening, None, self._thread
            if opening is None or opening.exception(patience) is not None:
                return
            loop = opening.result()
            if self._finalizer is not None:
                self._finalizer.detach()
            asyncio.run_coroutine_threadsafe(self._app.close(), loop).result(patience)
            loop.call_soon_threadsafe(loop.stop)
            assert thread is not None
            thread.join(patience)


def _abandon(loop: asyncio.AbstractEventLoop, store: Store) -> None:
    async def end() -> None:
        with suppress(Exception):
            await store.close()
        loop.stop()

    with suppress(RuntimeError):  # the loop is closed
        asyncio.run_coroutine_threadsafe(end(), loop)


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


@atexit.register
def _close_all() -> None:
    for home in list(_homes):
        with suppress(Exception):
            home.close(LAST_MOMENTS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_homes.clear)
