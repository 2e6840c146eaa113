"""The event log as the reader found it, in a file: each event behind its length."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from holdfast.core.event import Event

_LENGTH = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Event).decode
ENDS = frozenset(("complete", "fail", "cancel"))


def write(file: BinaryIO, event: Event) -> None:
    """The event is at the end of the file."""
    data = _encode(event)
    file.write(_LENGTH.pack(len(data)) + data)


def events(folder: Path) -> Iterator[Event]:
    """Yield what was read, in the order in which it was read."""
    with (folder / "events").open("rb") as file:
        while head := file.read(_LENGTH.size):
            yield _decode(file.read(_LENGTH.unpack(head)[0]))


def step(event: Event) -> int:
    """Return by how much an event changes the number of unfinished runs."""
    if event.transition in ("enqueue", "requeue"):
        return 1
    return -(event.transition in ENDS and event.state is not None and event.state.finished)
