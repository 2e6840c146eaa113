"""When the worker's lease ends: written by the worker, read by each of its processes in shared memory.

So a process knows it though its worker is frozen, and hears of a new one though its own loop is busy.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable

from ...page import SIZE, Page, now

GLANCE = 0.2
"""How often a process looks."""


class Deadline:
    """The worker's end. `fd` is for processes, which cannot write to it; `guard_fd` for the guard, which does."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile(prefix="holdfast-") as file:
            os.ftruncate(file.fileno(), SIZE)
            self.guard_fd = os.open(file.name, os.O_RDWR)
            self.fd = os.open(file.name, os.O_RDONLY)
        self.page = Page(self.guard_fd, writable=True)
        self.page.ends = float("inf")

    def close(self) -> None:
        """Nobody reads it any more."""
        os.close(self.fd)
        os.close(self.guard_fd)
        self.page.close()


def watch(fd: int, is_at_work: Callable[[], bool], end: Callable[[], None]) -> None:
    """From now on `end` is called, in a thread of its own, when the deadline has passed and something is at work."""
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
