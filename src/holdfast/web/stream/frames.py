"""Events on their way to many streams: each is turned into text once, however many want it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from functools import cached_property

from ...core.event import Event
from ...json.form import JsonObject
from ..json_bytes import json_bytes
from ..problem import Problem

Encode = Callable[[Event], JsonObject]
_MARK = "b64."


class Frame:
    """One event, and its text once somebody wanted it."""

    __slots__ = ("_encode", "_text", "event")

    def __init__(self, event: Event, encode: Encode) -> None:
        self.event = event
        self._encode = encode
        self._text = b""

    @property
    def text(self) -> bytes:
        """The event as a message of the stream."""
        if not self._text:
            self._text = message("event", self._encode(self.event), self.event.position)
        return self._text


class Batch:
    """What one read of the log brought."""

    def __init__(self, frames: Sequence[Frame], position: str, turn: int, last: bool) -> None:
        self.frames = frames
        self.position = position
        self.turn = turn
        self.last = last
        """The read went to the end of the log."""
        self._texts: dict[tuple[str | None, str | None, int], bytes] = {}

    @cached_property
    def _by_queue(self) -> dict[str, list[Frame]]:
        found: dict[str, list[Frame]] = {}
        for frame in self.frames:
            found.setdefault(frame.event.queue, []).append(frame)
        return found

    def of(self, queue: str | None, id: str | None) -> Sequence[Frame]:
        """Return the events of a queue, or of one job of it."""
        if queue is None:
            return self.frames
        found = self._by_queue.get(queue, [])
        return found if id is None else [frame for frame in found if frame.event.id == id]

    def text(self, queue: str | None, id: str | None, last: int) -> bytes:
        """Return the messages of the last so many of these events, made once for all that want the same."""
        which = (queue, id, last)
        if which not in self._texts:
            found = self.of(queue, id)
            self._texts[which] = b"".join(frame.text for frame in found[len(found) - last :])
        return self._texts[which]


def message(name: str, data: object, position: str | None = None) -> bytes:
    """Return a message of a stream of server-sent events."""
    head = b"" if position is None else b"id: %s\n" % written(position).encode()
    return head + b"event: %s\ndata: %s\n\n" % (name.encode(), json_bytes(data))


def heartbeat(position: str | None) -> bytes:
    """Return what keeps a stream open, and its reader's position fresh."""
    return b": well\n\n" if position is None else b"id: %s\n\n" % written(position).encode()


def written(position: str) -> str:
    """Return a position as it stands in a line and in a header: one of plain characters as it is."""
    if position.isascii() and position.isprintable() and not position.startswith(_MARK):
        return position
    return _MARK + base64.urlsafe_b64encode(position.encode()).decode()


def position_of(text: str) -> str:
    """Return the position that was written so."""
    if not text.startswith(_MARK):
        return text
    try:
        return base64.urlsafe_b64decode(text.removeprefix(_MARK).encode()).decode()
    except (binascii.Error, UnicodeError):
        raise Problem(400, "bad-position", f"{text!r} is no position of the event log") from None
