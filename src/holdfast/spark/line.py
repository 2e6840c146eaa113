"""A line from the driver to the store, for code that has no event loop, or sits in a notebook's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..store import Store, open_store

T = TypeVar("T")


class Line:
    """The store is open, in a thread of its own, while the block lasts; `line(coroutine)` blocks for an answer."""

    def __init__(self, url: str) -> None:
        self.store: Store = open_store(url)
        self._loop = asyncio.new_event_loop()
        self.closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-line", daemon=True)

    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __enter__(self) -> Line:
        self._thread.start()
        try:
            self(self.store.open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self(self.store.close())
        finally:
            self._end()

    def _end(self) -> None:
        self.closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
