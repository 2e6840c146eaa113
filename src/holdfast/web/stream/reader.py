"""The log, live: as many streams as there are browsers, fed by the one follower of the server."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from ...core.bound import EVENTS_AT_ONCE
from ...errors import StoreError
from ...store.contract import EventPage
from ...telemetry.recent import Recent
from .frames import Batch, Encode, Frame, message
from .pulse import Pulse
from .subscriber import Subscriber

KEPT = 10_000
"""Events that are kept for those who come back."""
LINGER = 30.0
"""So long after the last stream has ended they are still kept."""
MOST_SENT = 20_000
"""So many events are sent within a second to all streams together, when there are several: each has its share."""
MOST_SENT_CROWDED = 4_000
"""The same while other processes want the processor, too."""
CATCHING_UP = 0.02
"""How often it is asked whether the follower has come to the end of the log …"""
PATIENCE = 10.0
"""… and for how long: one that never gets there is always a little behind."""


class LogStream:
    """Hears what the server's follower reads, and hands every page to all streams."""

    def __init__(self, recent: Recent, encode: Encode) -> None:
        self._follower = recent
        self._encode = encode
        self._subscribers: set[Subscriber] = set()
        self._recent: deque[Frame] = deque(maxlen=KEPT)
        self._pulse = Pulse()
        self._task: asyncio.Task[None] | None = None
        self.away: str | None = None
        """Why the store cannot be read at this moment."""
        recent.listener = self

    def __len__(self) -> int:
        return len(self._subscribers)

    @property
    def is_eager(self) -> bool:
        """True while there are streams."""
        return bool(self._subscribers)

    @property
    def position(self) -> str | None:
        """How far the follower is."""
        return self._follower.position

    @property
    def turn(self) -> int:
        """How many reads of the log have begun."""
        return self._follower.turn

    async def start(self) -> None:
        """Return once the follower has come to the end of the log, where streams begin; on a busy one, soon after."""
        if self._task is None or self._task.done():
            self._recent.clear()
            self._task = asyncio.create_task(self._beat())
        follower, turn, deadline = self._follower, self.turn, time.monotonic() + PATIENCE
        follower.wake()
        while follower.end_turn <= turn and time.monotonic() < deadline:
            if follower.turn > turn and follower.trouble is not None:
                raise StoreError(follower.trouble)
            await asyncio.sleep(CATCHING_UP)

    @contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[Subscriber]:
        """The subscriber is handed every page while the block lasts."""
        self._subscribers.add(subscriber)
        subscriber.second(self._share())
        self._follower.wake()
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
        """End all streams."""
        for subscriber in tuple(self._subscribers):
            subscriber.end("stopping")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- what the follower says

    def hear(self, page: EventPage) -> None:
        """Give a page to every subscriber."""
        if self.away is not None:
            self.away = None
            self._tell("store_back", {})
        if self._task is None or self._task.done():
            return
        if page.reset:
            self._tell("reset", {})
            self._recent.clear()
        elif page.gap:
            self._tell("gap", {"events": page.gap})
        if page.events or any(each.held for each in self._subscribers):
            self._hand_out(page)

    def skipped(self, page: EventPage) -> None:
        """Tell that events were left out, nobody knows how many."""
        self._recent.clear()
        self._tell("gap", {"events": None})

    def lost(self, why: str) -> None:
        """Tell that the store cannot be read, once."""
        if self.away is None:
            self._tell("store_away", {"detail": why})
        self.away = why

    def _hand_out(self, page: EventPage) -> None:
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

    # --- each second

    async def _beat(self) -> None:
        """Tell, each second, what was counted; end some time after the last stream has."""
        idle = 0
        while idle < LINGER:
            await asyncio.sleep(1)
            idle = 0 if self._subscribers else idle + 1
            self._second()

    def _second(self) -> None:
        found, share = self._pulse.taken(), self._share()
        text = message("pulse", found, self.position) if found else b""
        for subscriber in tuple(self._subscribers):
            subscriber.second(share)
            if subscriber.pulse:
                subscriber.put(text)

    def _share(self) -> int | None:
        """Return how many events a stream may be sent within a second; `None` is any number."""
        streams = sum(each.events for each in self._subscribers)
        most = MOST_SENT_CROWDED if self._follower.is_crowded else MOST_SENT
        return None if streams <= 1 else max(1, most // streams)
