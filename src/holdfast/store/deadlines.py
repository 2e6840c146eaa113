"""Deadlines: one timer for all who wait in a loop for at most so long.

Most waits end early. A timer for each would be made and cancelled in vain; this one is kept for those that follow.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from .prompt import Prompt

FEW = 16
"""Deadlines of so many waiters are met exactly."""
LATE = 0.02
"""Seconds by which one of more of them may be missed, so that those of many are looked at together."""


class Deadlines:
    """When each of some waiters goes on with nothing told, at the latest."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._until: dict[Prompt[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._soonest = math.inf
        """When the timer is due."""

    def add(self, waiter: Prompt[Any], seconds: float) -> None:
        """Tell the waiter None after so many seconds, unless it is discarded before."""
        self.add_until(waiter, self.loop.time() + seconds)

    def add_until(self, waiter: Prompt[Any], until: float) -> None:
        """The same, at an instant of the loop's clock: waiters who begin together need not look at it each."""
        self._until[waiter] = until
        if until < self._soonest:
            self._set(until)

    def discard(self, waiter: Prompt[Any]) -> None:
        """Let a waiter wait without an end, or no longer."""
        self._until.pop(waiter, None)

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._soonest = self.loop.call_at(at, self._look), at

    def _look(self) -> None:
        self._timer, self._soonest, now = None, math.inf, self.loop.time()
        over = [waiter for waiter, until in self._until.items() if until <= now]
        for waiter in over:
            self._until.pop(waiter, None)
            waiter.tell(None)
        if self._until:
            soonest = min(self._until.values())
            at = soonest if len(self._until) <= FEW else max(soonest, now + LATE)
            if at < self._soonest:  # one that was told may have asked for more time already
                self._set(at)
