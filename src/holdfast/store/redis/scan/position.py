"""Positions in the log. A queue's part of one is spelled `epoch-sequence-mark`, or `epoch-` before the first entry.

A server that went back in time gives its sequences out again. The entry behind one is then another, with another mark,
and a reader that goes on from there notices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from ....core.event import before_end
from ....errors import ConfigError

UNBORN = "0"
"""The epoch of a queue that is listed, and has no log yet: one begins with its first step."""
_POSITION = re.compile(r"([0-9]{1,20})-(?:([0-9]{1,20})(?:-([0-9a-f]{8}))?)?").fullmatch


class QueuePosition(NamedTuple):
    """After an entry of one queue's log, or before the first. A position that was planned has no mark yet."""

    epoch: str
    seq: int = -1
    mark: str = ""

    @property
    def unborn(self) -> bool:
        """Whether its queue had no log when it was looked at."""
        return self.epoch == UNBORN and self.seq < 0

    @property
    def entry(self) -> str:
        """The id of its entry; empty before the first."""
        return f"{self.epoch}-{self.seq}" if self.seq >= 0 else ""

    def __str__(self) -> str:
        if self.seq < 0:
            return f"{self.epoch}-"
        return f"{self.entry}-{self.mark}" if self.mark else self.entry


def position_at(id: bytes, fields: Sequence[bytes]) -> QueuePosition:
    """Return the position after an entry."""
    epoch, _, seq = id.decode().partition("-")
    return QueuePosition(epoch, int(seq), mark_of(fields))


def text_at(id: bytes, fields: Sequence[bytes]) -> str:
    """Return the position after an entry as text."""
    return f"{id.decode()}-{mark_of(fields)}"


def mark_of(fields: Sequence[bytes]) -> str:
    """Return what tells an entry from another one with the same id: a sum over its job's id and all that it says."""
    if len(fields) < 4:  # one that is not ours
        fields = [*fields, *[b""] * 4]
    return f"{crc32(fields[3], crc32(fields[1])):08x}"


def text_of(position: dict[str, str]) -> str:
    """Return a position, queue by queue, as text."""
    return msgspec.json.encode(position).decode()


def text_round(position: dict[str, str], queue: str) -> tuple[str, str]:
    """Return what of the text of a position stands before and behind the part of one queue."""
    parts = [text_of({name: at})[1:-1] for name, at in position.items()]
    number = list(position).index(queue)
    own = text_of({queue: ""})[1:-2]
    return "{" + ",".join([*parts[:number], own]), ",".join(['"', *parts[number + 1 :]]) + "}"


def parse_position(text: str | None) -> dict[str, QueuePosition]:
    """Return where in each queue's log a position is."""
    if text is None or before_end(text) is not None:
        return {}
    try:
        texts = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        texts = {"": ""}
    positions = {queue: found for queue, each in texts.items() if (found := _queue_position(each))}
    if len(positions) < len(texts):
        raise ConfigError(f"position {text!r} is not one that the event log gave")
    return positions


def _queue_position(text: str) -> QueuePosition | None:
    found = _POSITION(text)
    return None if found is None else QueuePosition(found[1], int(found[2] or -1), found[3] or "")
