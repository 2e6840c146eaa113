"""A few numbers that all processes of one torture share: a page of memory in a file."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.store.sqlite import SqliteStore

CELLS = 64
CLOCK_MS, STOP, UNFINISHED, READ = range(4)
MADE = 16
"""The first of the cells in which each producer counts its jobs."""


class Board:
    """Whole numbers by cell. Each cell has one writer; everybody reads."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.ftruncate(descriptor, CELLS * 8)
        self._cells = memoryview(mmap.mmap(descriptor, CELLS * 8)).cast("q")
        os.close(descriptor)

    def __getitem__(self, cell: int) -> int:
        return self._cells[cell]

    def __setitem__(self, cell: int, value: int) -> None:
        self._cells[cell] = value

    def clock_ms(self) -> int:
        """The wall clock of this torture, which the monkey steps: for stores whose clock is the process's own."""
        return time.time_ns() // 1_000_000 + self._cells[CLOCK_MS]


def app_at(url: str, board: Board, **options: Any) -> Holdfast:
    """Return an app on the store. SQLite's clock is the process's own, so it is given that of the board."""
    store = SqliteStore(url, clock=board.clock_ms) if url.startswith("sqlite:") else None
    return Holdfast(url, store=store, **options)
