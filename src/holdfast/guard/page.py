"""The page: when a worker's lease ends and when its loop last moved, in memory that its processes share."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from functools import partial

_NUMBER = struct.Struct("d")
_ENDS, _MOVED = 0, _NUMBER.size
SIZE = 2 * _NUMBER.size
now: Callable[[], float] = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Return seconds of a clock that all processes share, and that counts while the machine sleeps."""


class Page:
    """Two numbers, each written by one process and read by many, from any thread."""

    def __init__(self, fd: int, *, writable: bool = False) -> None:
        self._map = mmap.mmap(fd, SIZE, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)

    @property
    def ends(self) -> float:
        """When the lease is over."""
        return float(_NUMBER.unpack_from(self._map, _ENDS)[0])

    @ends.setter
    def ends(self, at: float) -> None:
        _NUMBER.pack_into(self._map, _ENDS, at)

    @property
    def moved(self) -> float:
        """When the worker's loop last moved."""
        return float(_NUMBER.unpack_from(self._map, _MOVED)[0])

    @moved.setter
    def moved(self, at: float) -> None:
        _NUMBER.pack_into(self._map, _MOVED, at)

    def close(self) -> None:
        """Close it."""
        self._map.close()
