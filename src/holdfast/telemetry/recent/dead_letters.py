"""The dead letters that are there already, counted by signature: a page at a time, and no more than so many."""

from __future__ import annotations

import time

from ...core.state import State
from ...store.contract import Filter, Store
from .failures import Dead

PAGE = 100
_FAILED = Filter(states=(State.FAILED,))


class DeadLetterCount:
    """One pass over the dead letters, newest first."""

    def __init__(self, store: Store, most: int) -> None:
        self._store = store
        self._left = most
        self._cursor: str | None = None
        self.found: dict[str, Dead] = {}
        self.counted = 0
        self.spent = 0.0
        """Seconds that reading them took."""
        self.over = most < 1
        self.whole = False
        """Whether all of them were counted, and not only the newest."""

    async def page(self) -> None:
        """Count some more."""
        began = time.monotonic()
        page = await self._store.jobs(_FAILED, limit=min(PAGE, self._left), cursor=self._cursor)
        for job in page.jobs:
            if job.error is None or not job.holds_id:
                continue  # a run that was requeued stays, and is nobody's concern any more
            at_ms = job.finished_at_ms or job.enqueued_at_ms
            dead = self.found.setdefault(job.error.signature, Dead(0, at_ms, job))
            dead.count += 1
            dead.first_ms = min(dead.first_ms, at_ms)
        self.counted += len(page.jobs)
        self._left -= len(page.jobs)
        self._cursor = page.cursor
        self.whole = page.cursor is None
        self.over = self.whole or self._left < 1
        self.spent += time.monotonic() - began
