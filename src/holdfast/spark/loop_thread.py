"""An event loop in a thread of its own, with an open store: for code that has no loop, or sits in a notebook's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

from ..store import Store, open_store

T = TypeVar("T")


class LoopThread:
    """Open a store for the length of a block; `run(coroutine)` blocks until the coroutine has its answer."""

    def __init__(self, url: str) -> None:
        self.store: Store = open_store(url)
        self._loop = asyncio.new_event_loop()
        self.closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-loop", daemon=True)

    def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Return what the coroutine returns. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __enter__(self) -> LoopThread:
        self._thread.start()
        try:
            self.run(self.store.open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.run(self.store.close())
        finally:
            self._end()

    def _end(self) -> None:
        self.closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
