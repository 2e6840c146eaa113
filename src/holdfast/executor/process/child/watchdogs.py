"""Threads that watch a process: whether its worker's lease is over, and whether its event loop is stuck."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable

from ....guard.page import Page, now
from .. import frames

STUCK = 0.5
"""After so many seconds without a move, a loop is held up."""
GLANCE = 0.2
"""How often a watchdog looks."""


def watch(fd: int, is_at_work: Callable[[], bool], end: Callable[[], None]) -> None:
    """Start a thread that calls `end` when the deadline has passed and a handler runs."""
    page = Page(fd)
    os.close(fd)

    def look() -> None:
        while True:
            at = page.ends
            left = at - now()
            # Looked at twice: this thread may have waited for the interpreter lock since it read the deadline.
            if left <= 0 and is_at_work() and page.ends == at:
                end()
            time.sleep(min(max(left, 0.01), GLANCE))

    threading.Thread(target=look, name="holdfast-deadline", daemon=True).start()


def watch_loop(
    loop: asyncio.AbstractEventLoop,
    is_at_work: Callable[[], bool],
    blocker: Callable[[], int],
    say: Callable[[frames.FromProcess], None],
) -> None:
    """Start a thread that tells the worker when the loop stands still while a handler runs, and when it moves again."""

    def look() -> None:
        while True:
            if is_at_work():
                moved = threading.Event()
                loop.call_soon_threadsafe(moved.set)
                if not moved.wait(STUCK):
                    say(frames.LoopStuck(blocker()))
                    moved.wait()
                    say(frames.LoopStuck(None))
            time.sleep(GLANCE)

    threading.Thread(target=look, name="holdfast-stuck-loop", daemon=True).start()
