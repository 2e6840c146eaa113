"""The log, live: one reader for each server, and as many streams as there are browsers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from ...app.app import Holdfast
from ...core.bound import EVENTS_AT_ONCE
from ...errors import HoldfastError
from ...store.contract import EventPage
from .frames import Batch, Encode, Frame, message
from .pulse import Pulse

log = logging.getLogger("holdfast")
POLL = 0.5
BUSY_POLL = 0.2
KEPT = 10_000
"""Events that are kept for those who come back."""
MOST_BYTES = 4 * 1024 * 1024
"""A stream that is further behind is ended; its reader comes back for the rest."""
LINGER = 30.0
"""So long after the last stream has ended the reader goes on."""
LONGEST_PAUSE = 5.0


class Subscriber:
    """One stream: what it wants, and what it has not been sent yet."""

    def __init__(self, queue: str | None, id: str | None, *, events: bool, pulse: bool, rate: int | None) -> None:
        self.queue = queue
        self.id = id
        self.events = events
        self.pulse = pulse
        self.rate = rate
        self.left = rate or 0
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
        elif self.events and self.rate is not None:
            frames = batch.of(self.queue, self.id)
            kept = min(self.left, len(frames))
            self.left -= kept
            self.skipped += len(frames) - kept
            self.put(b"".join(frame.text for frame in frames[len(frames) - kept :]))
        elif self.events:
            self.put(batch.text(self.queue, self.id))

    def second(self) -> None:
        """A second has passed: as many events as its rate allows may be sent again."""
        if self.skipped:
            self.put(message("skipped", {"events": self.skipped}))
        self.left, self.skipped = self.rate or 0, 0

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
            try:
                await asyncio.wait_for(self._wake.wait(), seconds)
            except TimeoutError:
                return b""
        data = b"".join(self._out)
        self._out.clear()
        self._size = 0
        return data


class LogStream:
    """Reads the log while there are streams, and hands every batch to all of them."""

    def __init__(self, app: Holdfast, encode: Encode) -> None:
        self._app = app
        self._encode = encode
        self._subscribers: set[Subscriber] = set()
        self._recent: deque[Frame] = deque(maxlen=KEPT)
        self._pulse = Pulse()
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.position: str | None = None
        """How far the reader is; `None` while it does not read."""
        self.turn = 0
        self.away: str | None = None
        """Why the store cannot be read at this moment."""

    def __len__(self) -> int:
        return len(self._subscribers)

    async def start(self) -> None:
        """Let the reader read, from the end of the log on."""
        async with self._starting:
            if self._task is None or self._task.done():
                self.position = (await self._app.store.events("end")).position
                self._recent.clear()
                self._task = asyncio.create_task(self._read())

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[Subscriber]:
        """The subscriber is handed every batch while the block lasts."""
        self._subscribers.add(subscriber)
        if self.away is not None:
            subscriber.put(message("store_away", {"detail": self.away}))
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    def behind(self, position: str) -> list[Frame] | None:
        """Return the events behind a position, where they are still at hand; else `None`."""
        if position == self.position:
            return []
        for back, frame in enumerate(reversed(self._recent)):
            if frame.event.position == position:
                return list(self._recent)[len(self._recent) - back :]
        return None

    async def close(self) -> None:
        """End all streams, and the reader."""
        for subscriber in tuple(self._subscribers):
            subscriber.end("stopping")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        pause, idle_since, second = POLL, loop.time(), loop.time()
        while self._subscribers or loop.time() - idle_since < LINGER:
            if self._subscribers:
                idle_since = loop.time()
            wait = await self._turn(pause)
            pause = min(LONGEST_PAUSE, pause * 2) if self.away else POLL
            if loop.time() - second >= 1:
                second = loop.time()
                self._second()
            await asyncio.sleep(wait)
        self.position = None

    async def _turn(self, pause: float) -> float:
        """Read once, and hand out what there is; return for how many seconds to wait."""
        self.turn += 1
        try:
            page = await self._app.store.events(self.position)
        except Exception as error:
            if not isinstance(error, HoldfastError):
                log.exception("stream_failed: the log could not be read")
            self._lost(str(error))
            return pause
        if self.away is not None:
            self.away = None
            self._tell("store_back", {})
        self.hand_out(page)
        return 0.0 if len(page.events) >= EVENTS_AT_ONCE else BUSY_POLL if page.events else POLL

    def _lost(self, why: str) -> None:
        if self.away is None:
            self._tell("store_away", {"detail": why})
        self.away = why

    def hand_out(self, page: EventPage) -> None:
        """Give a page to every subscriber."""
        if page.reset:
            self._tell("reset", {})
            self._recent.clear()
        elif page.gap:
            self._tell("gap", {"events": page.gap})
        self.position = page.position
        if not page.events and not any(each.held for each in self._subscribers):
            return
        frames = [Frame(event, self._encode) for event in page.events]
        batch = Batch(frames, page.position, self.turn, len(frames) < EVENTS_AT_ONCE)
        self._recent.extend(frames)
        pulsing = False
        for subscriber in tuple(self._subscribers):
            subscriber.take(batch)
            pulsing = pulsing or subscriber.pulse
        if pulsing:
            self._pulse.add(page.events)

    def _tell(self, name: str, data: dict[str, object]) -> None:
        text = message(name, data)
        for subscriber in tuple(self._subscribers):
            subscriber.put(text)

    def _second(self) -> None:
        found = self._pulse.taken()
        text = message("pulse", found, self.position) if found else b""
        for subscriber in tuple(self._subscribers):
            subscriber.second()
            if subscriber.pulse:
                subscriber.put(text)
