"""The events of one job, read in a moment: where a store has no index for them, those of late."""

from __future__ import annotations

import asyncio

from ..app.app import Holdfast
from ..core.event import Event

AT_ONCE = 0.15
"""Seconds that the whole log may take; where it takes longer, later questions look at its end alone."""
LATE = 20_000
"""So many of the latest events are looked at then."""
MOST = 2000
"""So many events of a job are read: one with more has lived an unusual life."""


class JobHistory:
    """Reads what happened to a job. Redis keeps a stream for each queue, and no index by job."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self.by_scan = False
        """The log is long, and has no index: only its end is looked at unless all of it is asked for."""

    async def events(self, queue: str, id: str, *, whole: bool = False) -> tuple[list[Event], bool]:
        """Return the events of a job, oldest first, and whether there may be older ones."""
        if whole:
            return await self._read(queue, id, None), False
        if not self.by_scan:
            try:
                return await asyncio.wait_for(self._read(queue, id, None), AT_ONCE), False
            except TimeoutError:
                self.by_scan = True
        return await self._read(queue, id, f"end-{LATE}"), True

    async def _read(self, queue: str, id: str, after: str | None) -> list[Event]:
        found: list[Event] = []
        async for event in self._app.client.look.events(after=after, queue=queue, id=id, on_gap=lambda _: None):
            found.append(event)
            if len(found) >= MOST:
                break
        return found
