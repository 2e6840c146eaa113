"""Those who wait and those who cancel: `python -m torture.caller LIFE`. Each question and answer is in the ledger."""

from __future__ import annotations

import asyncio
import random
import sys

from holdfast import Handle, JobCancelled, JobFailed, JobMissing, JobTimeout, StoreError
from holdfast.core.state import State

from .app import app, ask, board, drop, plan
from .board import STOP
from .insist import PAUSE, insist
from .ledger import note

CALLERS, CANCELLERS = 6, 3
BETWEEN = 0.1


class Caller:
    """Several who call and several who cancel, until they are told to stop."""

    def __init__(self, life: int) -> None:
        self._name = f"c{life}"
        self._rng = random.Random(f"{plan.seed}-caller-{life}")
        self._numbers = iter(range(1 << 60))

    async def run(self) -> None:
        """Everybody has been told to stop, and has their last answer."""
        async with app:
            await asyncio.gather(
                *(self._repeat(self._call) for _ in range(CALLERS)),
                *(self._repeat(self._cancel) for _ in range(CANCELLERS)),
            )

    async def _repeat(self, one) -> None:  # type: ignore[no-untyped-def]
        while not board[STOP]:
            await one(next(self._numbers))
            await asyncio.sleep(self._rng.random() * BETWEEN * 2)

    async def _call(self, number: int) -> None:
        task = ask.options(job_id=f"{self._name}-{number}")
        handle = await insist(lambda: task.enqueue(number))
        note("A", handle.queue, handle.id, handle.run, "ask", "-")
        note("W", handle.queue, handle.id, handle.run)
        note("R", handle.queue, handle.id, handle.run, await self._answer(handle, number))

    async def _answer(self, handle: Handle[int], number: int) -> str:
        """Wait as long as it takes, at times impatiently."""
        while True:
            try:
                result = await handle.result(self._rng.choice((None, None, 0.2, 3)))
            except JobTimeout:
                continue
            except (StoreError, OSError):
                await asyncio.sleep(PAUSE)
            except (JobFailed, JobCancelled, JobMissing) as error:
                return type(error).__name__
            else:
                return "ok" if result == number * 3 else f"wrong:{result}"

    async def _cancel(self, number: int) -> None:
        """Cancel a job that waits for its time, or runs, or is over, as it happens."""
        running = self._rng.choice(("refuse", "signal", "kill"))
        task = drop.options(job_id=f"{self._name}-{number}", delay=self._rng.choice((0, 0.2, 30)))
        handle = await insist(lambda: task.enqueue(self._rng.choice((0.01, 0.5, 2.0))))
        note("A", handle.queue, handle.id, handle.run, "drop", "-")
        await asyncio.sleep(self._rng.random() * 0.5)
        cancelled = await insist(lambda: app.cancel(handle.queue, handle.id, running))
        if cancelled.state in (State.WAITING, State.SCHEDULED) and cancelled.reply == "ok":
            note("C", handle.queue, handle.id, handle.run)


if __name__ == "__main__":
    asyncio.run(Caller(int(sys.argv[1])).run())
