"""A lock with which the Spark tasks of one write take turns at a SQLite file.

SQLite has one writer at a time, and a writer that finds the file locked sleeps longer and longer before it asks again,
up to a tenth of a second in which no task writes. So tasks queue for this lock first. The system drops it when its
process dies, and it is only a courtesy: a task that waits for too long writes without it.
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
    except ImportError:  # Windows has no such lock: there, tasks wait for SQLite itself
        fcntl = None

PATIENCE = 2.0
"""In seconds. A chunk takes a tenth of that, so another program holds a lock that lasts longer."""
PAUSE = 0.001


class FileLock:
    """The lock of one store, as one task sees it. Stores that are not files have none."""

    def __init__(self, url: str) -> None:
        self._folder: int | None = None
        parts = urlsplit(url)
        if parts.scheme == "sqlite" and fcntl is not None:
            # The folder's own lock: a file beside the database would stay, and the database's locks are SQLite's.
            self._folder = os.open(os.path.dirname(unquote(parts.path.removeprefix("/"))) or ".", os.O_RDONLY)

    def close(self) -> None:
        """Drop the lock."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep other tasks from writing while the block lasts; after `PATIENCE`, go on without the lock."""
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
