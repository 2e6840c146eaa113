"""Reads the event log as it grows, into a file: `python -m torture.reader`. A signal ends it at the end of the log.

It reads from the store itself, past the proxies, and asks again when the store is away: so it also tries whether a
reader sees every event exactly once, whatever happens to the store.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from holdfast import EventPage

from .app import app, board, plan
from .board import READ, UNFINISHED
from .insist import insist
from .record import step, write

NAME = "torture"
HOLD = 20
"""Pages after which the log is told how far it was read."""
PAGE = 5000
PAUSE = 0.05


class Reader:
    """Reads page after page; what it has read, the log may forget."""

    def __init__(self) -> None:
        self._position: str | None = None
        self._pages = 0
        self.at_end = False
        """Whether there was no more than it has read."""
        self._events = (plan.path / "events").open("ab")
        self._gaps = (plan.path / "gaps").open("a")

    async def read(self) -> bool:
        """One page more is in the file. False: there is none yet."""
        page = await insist(lambda: app.store.events(self._position, limit=PAGE))
        self._position, self._pages = page.position, self._pages + 1
        self.at_end = len(page.events) < PAGE
        self._take(page)
        if self._pages % HOLD == 0:
            await insist(lambda: app.store.hold(NAME, page.position))
        return bool(page.events)

    def _take(self, page: EventPage) -> None:
        if page.gap or page.reset:
            print(f"gap {page.gap} reset {page.reset} at {page.position}", file=self._gaps, flush=True)
        for event in page.events:
            write(self._events, event)
        board[UNFINISHED] += sum(map(step, page.events))
        board[READ] += len(page.events)

    def close(self) -> None:
        """Everything is in the files."""
        self._events.close()
        self._gaps.close()


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    reader = Reader()
    async with app:
        while await reader.read() or not stop.is_set():
            if reader.at_end:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), PAUSE)
    reader.close()


if __name__ == "__main__":
    asyncio.run(main())
