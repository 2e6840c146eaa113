"""A bell for one sleeper: rung from the loop, or by time."""

from __future__ import annotations

import asyncio


class Alarm:
    """Remembers that it was rung until somebody has waited for it."""

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """The sleeper wakes; if nobody sleeps, the next one does not."""
        self._rung = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait(self, seconds: float | None = None) -> bool:
        """Return when it is rung (True), or after so many seconds (False)."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._sleeper = loop.create_future()
            timer = None if seconds is None else loop.call_later(max(0, seconds), _wake, self._sleeper)
            try:
                await self._sleeper
            finally:
                self._sleeper = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
