"""The events of one job, read in a moment: where a store has no index for them, those of late."""

from __future__ import annotations

import asyncio
import time

from ..app.app import Holdfast
from ..core.event import Event

AT_ONCE = 0.1
"""Seconds that the whole log may take …"""
REMEMBERED = 600.0
"""… and where it took longer, for so many seconds only its end is looked at."""
LATE = 20_000
"""So many of the latest events are looked at then."""
MOST = 2000
"""So many events of a job are read: one with more has lived an unusual life."""


class JobHistory:
    """Reads what happened to a job. Redis keeps a stream for each queue, and no index by job."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._slow_until = float("-inf")

    @property
    def is_slow(self) -> bool:
        """True when the whole log took too long of late: it is long, and has no index."""
        return time.monotonic() < self._slow_until

    async def events(self, queue: str, id: str, *, whole: bool = False) -> tuple[list[Event], bool]:
        """Return the events of a job, oldest first, and whether there may be older ones."""
        if whole:
            return await self._read(queue, id, None), False
        if not self.is_slow:
            try:
                return await asyncio.wait_for(self._read(queue, id, None), AT_ONCE), False
            except TimeoutError:
                self._slow_until = time.monotonic() + REMEMBERED
        return await self._read(queue, id, f"end-{LATE}"), True

    async def _read(self, queue: str, id: str, after: str | None) -> list[Event]:
        found: list[Event] = []
        async for event in self._app.client.look.events(after=after, queue=queue, id=id, on_gap=lambda _: None):
            found.append(event)
            if len(found) >= MOST:
                break
        return found
