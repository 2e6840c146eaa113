"""One stream of server-sent events: what it missed first, then what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from ...core.bound import EVENTS_AT_ONCE
from ...core.event import Event
from ...store.contract import EventPage, Store
from .frames import Batch, Encode, Frame, heartbeat, message
from .reader import LogStream
from .subscriber import Subscriber

HEARTBEAT = 15.0
RETRY_MS = 2000


class LiveStream:
    """Follows the log for one caller, from a position or from now on."""

    def __init__(self, stream: LogStream, store: Store, encode: Encode, subscriber: Subscriber) -> None:
        self._stream = stream
        self._store = store
        self._encode = encode
        self._subscriber = subscriber
        self._seen: set[bytes] = set()
        """Events that were read before the reader of the server came to them."""
        self._first: EventPage | None = None
        self._after: str | None = None

    async def start(self, after: str | None) -> None:
        """Find out where to begin; raise while the caller can still be answered with a problem."""
        await self._stream.start()
        if after is None or after == "end" or self._stream.behind(after) is not None:
            self._after = after
            return
        self._first = await self._page(after)
        self._after = self._first.position

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the messages, until the caller leaves or the server stops."""
        subscriber, stream = self._subscriber, self._stream
        yield b"retry: %d\n\n" % RETRY_MS
        if self._first is not None:
            async for data in self._missed(self._first):
                yield data
        with stream.subscribed(subscriber):
            async for data in self._joined():
                yield data
            while subscriber.ended is None:
                data = await subscriber.get(HEARTBEAT)
                yield data or heartbeat(stream.position)
        yield message("end", {"reason": subscriber.ended})

    async def _missed(self, page: EventPage) -> AsyncIterator[bytes]:
        """Yield what was before, page by page, up to where the log ends."""
        while True:
            yield self._text(page)
            self._after = page.position
            if len(page.events) < EVENTS_AT_ONCE:
                return
            page = await self._page(page.position)

    async def _joined(self) -> AsyncIterator[bytes]:
        """Yield what came between the last page and the reader's next, each event once."""
        subscriber, stream = self._subscriber, self._stream
        kept = self._at_hand() if self._first is None else None
        if kept is not None:
            # Who is cut off behind this goes on where it was, and not behind what follows.
            yield message("hello", {"streams": len(stream)}, self._after if kept else stream.position)
            if kept and subscriber.events:
                yield b"".join(frame.text for frame in Batch(kept, "", 0, True).of(subscriber.queue, subscriber.id))
            return
        subscriber.held = True
        page = await self._page(self._after)
        async for data in self._missed(page):
            yield data
        turn = stream.turn
        while subscriber.held and subscriber.ended is None:
            await subscriber.get(0.05)
            for batch in subscriber.batches:
                yield self._unseen(batch)
                subscriber.held = subscriber.held and not (batch.turn > turn and batch.last)
            subscriber.batches.clear()

    def _at_hand(self) -> Sequence[Frame] | None:
        """Return what came since the position; `None` when so much has come since `start` that it is not kept."""
        return [] if self._after is None or self._after == "end" else self._stream.behind(self._after)

    def _text(self, page: EventPage) -> bytes:
        told = message("reset", {}) if page.reset else message("gap", {"events": page.gap}) if page.gap else b""
        if not self._subscriber.events:
            return told
        if self._subscriber.held:
            self._seen.update(map(_content, page.events))
        return told + b"".join(Frame(event, self._encode).text for event in page.events)

    def _unseen(self, batch: Batch) -> bytes:
        frames = batch.of(self._subscriber.queue, self._subscriber.id) if self._subscriber.events else []
        return b"".join(frame.text for frame in frames if _content(frame.event) not in self._seen)

    async def _page(self, after: str | None) -> EventPage:
        return await self._store.events(after, queue=self._subscriber.queue, id=self._subscriber.id)


def _content(event: Event) -> bytes:
    """Return what an event says, without its position, which readers that began elsewhere write otherwise."""
    return msgspec.msgpack.encode(msgspec.structs.replace(event, position=""))
