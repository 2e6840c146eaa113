"""Spark tasks that write to one SQLite file take turns.

A file has one writer at a time, and whoever finds it taken sleeps longer and longer before asking again, up to a tenth
of a second in which nobody writes. Tasks of a write are many and busy: they ask for their turn first, by a lock that
the system drops with its holder. It is a courtesy: who waits too long goes on without.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import fcntl
else:
    try:
        import fcntl
    except ImportError:  # Windows has no such lock: there, tasks find out by themselves
        fcntl = None

PATIENCE = 2.0
"""In seconds. A chunk takes a tenth of that, so whoever holds the lock for longer is none of us."""
PAUSE = 0.001


class Turns:
    """The turns of one task at one store. Only files have any."""

    def __init__(self, url: str) -> None:
        self._folder: int | None = None
        parts = urlsplit(url)
        if parts.scheme == "sqlite" and fcntl is not None:
            # The folder's own lock: a file beside the database would stay, and the database's locks are SQLite's.
            self._folder = os.open(os.path.dirname(unquote(parts.path.removeprefix("/"))) or ".", os.O_RDONLY)

    def close(self) -> None:
        """Nothing is held."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """No other task writes while the block lasts, unless one has kept us waiting for too long."""
        held = await self._wait()
        try:
            yield
        finally:
            if held and self._folder is not None:
                fcntl.flock(self._folder, fcntl.LOCK_UN)

    async def _wait(self) -> bool:
        deadline = time.monotonic() + PATIENCE
        while self._folder is not None and time.monotonic() < deadline:
            try:
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:  # taken, or a file system without such locks
                await asyncio.sleep(PAUSE)
        return False
