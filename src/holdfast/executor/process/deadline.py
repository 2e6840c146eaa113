"""When the worker's lease ends: written by the worker, read by each of its processes in shared memory.

So a process knows it though its worker is frozen, and hears of a new one though its own loop is busy.
"""

from __future__ import annotations

import os
import tempfile

from ...guard.page import SIZE, Page


class Deadline:
    """The page of a worker: `fd` is for processes, which only read, `guard_fd` for the guard, which writes."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile(prefix="holdfast-") as file:
            os.ftruncate(file.fileno(), SIZE)
            self.guard_fd = os.open(file.name, os.O_RDWR)
            self.fd = os.open(file.name, os.O_RDONLY)
        self.page = Page(self.guard_fd, writable=True)
        self.page.ends = float("inf")

    def close(self) -> None:
        """Close the page and its descriptors."""
        os.close(self.fd)
        os.close(self.guard_fd)
        self.page.close()
