"""When the worker's lease ends: written by the worker, read by each of its processes in shared memory.

So a process knows it though its worker is frozen, and hears of a new one though its own loop is busy.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable

_NUMBER = struct.Struct("d")
GLANCE = 0.2
"""How often a process looks."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return seconds of a clock that all processes share, and that counts while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Deadline:
    """The worker's end. `fd` is for processes, which cannot write to it."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile(prefix="holdfast-") as file:
            file.write(_NUMBER.pack(float("inf")))
            file.flush()
            self._map = mmap.mmap(file.fileno(), _NUMBER.size)
            self.fd = os.open(file.name, os.O_RDONLY)

    def move(self, at: float) -> None:
        """Processes may work until then. May be called from any thread."""
        _NUMBER.pack_into(self._map, 0, at)

    def close(self) -> None:
        """Nobody reads it any more."""
        os.close(self.fd)
        self._map.close()


def watch(fd: int, is_at_work: Callable[[], bool], end: Callable[[], None]) -> None:
    """From now on `end` is called, in a thread of its own, when the deadline has passed and something is at work."""
    shared = mmap.mmap(fd, _NUMBER.size, access=mmap.ACCESS_READ)
    os.close(fd)

    def look() -> None:
        while True:
            (at,) = _NUMBER.unpack_from(shared)
            left = at - now()
            # Looked at twice: this thread may have waited for the interpreter lock since it read the deadline.
            if left <= 0 and is_at_work() and _NUMBER.unpack_from(shared) == (at,):
                end()
            time.sleep(min(max(left, 0.01), GLANCE))

    threading.Thread(target=look, name="holdfast-deadline", daemon=True).start()
