"""A run in the background: begun, watched, and waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Generic, TypeVar

log = logging.getLogger("holdfast")
T = TypeVar("T")


class Background(Generic[T]):
    """A run as a task of its own. Its end by an error is logged at once, as it may never be awaited."""

    def __init__(self, running: Coroutine[object, None, T], name: str) -> None:
        self.begun = asyncio.Event()
        """Set when it works."""
        self._name = name
        self._task = asyncio.create_task(running)
        self._task.add_done_callback(self._tell)

    @property
    def over(self) -> bool:
        """True once it has ended."""
        return self._task.done()

    @property
    def is_current(self) -> bool:
        """True inside the run itself."""
        return asyncio.current_task() is self._task

    async def begin(self) -> None:
        """Return once it works, or was told to stop before it did; raise what kept it from starting."""
        beginning = asyncio.ensure_future(self.begun.wait())
        try:
            await asyncio.wait([self._task, beginning], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        finally:
            beginning.cancel()
        if self._task.done():
            self._task.result()

    async def end(self) -> T | None:
        """Return what it did, once it has ended; `None` when it was cancelled. Raise what ended it."""
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    def _tell(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self.begun.is_set():
            log.error("run_failed: %s ended: %s", self._name, error, exc_info=error)


class Ending(Generic[T]):
    """What `stop` returns. Awaiting it waits for the end and returns the report; it need not be awaited."""

    def __init__(self, ended: Callable[[], Coroutine[object, None, T]]) -> None:
        self._ended = ended

    def __await__(self) -> Generator[object, None, T]:
        return self._ended().__await__()
