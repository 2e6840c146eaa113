"""One stream: what it wants, and what it has not been sent yet."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from .frames import Batch, message

MOST_BYTES = 4 * 1024 * 1024
"""A stream that is further behind is ended; its reader comes back for the rest."""


class Subscriber:
    """One stream: what it wants, and what it has not been sent yet."""

    def __init__(self, queue: str | None, id: str | None, *, events: bool, pulse: bool, rate: int | None) -> None:
        self.queue = queue
        self.id = id
        self.events = events
        self.pulse = pulse
        self.rate = rate
        self.left = rate
        """How many events may still be sent within this second; `None` is any number."""
        self.skipped = 0
        self.ended: str | None = None
        """Why the stream ends, when it does."""
        self.held = False
        """Batches are kept as they are: the stream is still reading what was before them."""
        self.batches: list[Batch] = []
        self._out: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()

    def take(self, batch: Batch) -> None:
        """Take what one read of the log brought."""
        if self.held:
            self.batches.append(batch)
        elif self.events:
            self._send(batch)

    def _send(self, batch: Batch) -> None:
        count = len(batch.of(self.queue, self.id))
        kept = count if self.left is None else min(self.left, count)
        self.skipped += count - kept
        if self.left is not None:
            self.left -= kept
        self.put(batch.text(self.queue, self.id, kept))

    def second(self, share: int | None) -> None:
        """A second has passed: as many events as its rate and its share allow may be sent again."""
        if self.skipped:
            self.put(message("skipped", {"events": self.skipped}))
        self.skipped = 0
        self.left = min((each for each in (self.rate, share) if each is not None), default=None)

    def put(self, data: bytes) -> None:
        """Send some bytes, later; end the stream when it is too far behind."""
        if not data or self.ended:
            return
        if self._size > MOST_BYTES:
            self.end("behind")
            return
        self._out.append(data)
        self._size += len(data)
        self._wake.set()

    def end(self, why: str) -> None:
        """End the stream."""
        self.ended = self.ended or why
        self._wake.set()

    async def get(self, seconds: float) -> bytes:
        """Return what there is to send, waiting for it for some seconds."""
        if not self._out and not self.ended:
            self._wake.clear()
            with suppress(TimeoutError):  # something may have come in the last moment all the same
                await asyncio.wait_for(self._wake.wait(), seconds)
        data = b"".join(self._out)
        self._out.clear()
        self._size = 0
        return data
