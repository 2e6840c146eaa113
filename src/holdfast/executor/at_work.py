"""Handlers that run in this process, whether or not the workers that started them still exist.

A thread cannot be stopped: it may outlive its lease, its worker's session and its worker. A worker that starts a
handler in this process looks here first, so that one id never runs twice at once in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

Key = tuple[str, str, str]
"""The place of a store, a queue, and an id."""


class Holder(Protocol):
    """A worker, which may not know yet that it was declared dead."""

    def holds(self, key: Key) -> bool:
        """Return whether a handler of the id runs in it."""


class HandlersAtWork:
    """The ids whose handlers run here. Safe from any thread: each step is one call of a dict."""

    def __init__(self) -> None:
        self.marks: dict[Key, Callable[[], bool]] = {}
        """Whether the handler of each id still runs."""
        self._holders: WeakSet[Holder] = WeakSet()

    def enter(self, key: Key) -> Callable[[], None]:
        """Mark the id as running until the returned function is called, in whatever thread."""

        def at_work() -> bool:
            return True

        self.marks[key] = at_work
        return lambda: self._leave(key, at_work)

    def watch(self, key: Key, task: asyncio.Task[None]) -> None:
        """Mark the id as running until the task ends or its loop is closed."""
        loop = task.get_loop()

        def at_work() -> bool:
            return not task.done() and not loop.is_closed()

        self.marks[key] = at_work
        task.add_done_callback(lambda _: self._leave(key, at_work))

    def _leave(self, key: Key, at_work: Callable[[], bool]) -> None:
        if self.marks.get(key) is at_work:
            self.marks.pop(key, None)

    def add(self, holder: Holder) -> None:
        """Ask this worker, too, as long as it exists."""
        self._holders.add(holder)

    def has(self, key: Key, but: Holder | None = None) -> bool:
        """Return whether a handler of this id still runs here, in any worker or without one."""
        return self._is_marked(key) or any(each.holds(key) for each in tuple(self._holders) if each is not but)

    def _is_marked(self, key: Key) -> bool:
        mark = self.marks.get(key)
        if mark is not None and not mark():
            self.marks.pop(key, None)
            return False
        return mark is not None


at_work = HandlersAtWork()
"""Of this process: threads know nothing of workers."""
