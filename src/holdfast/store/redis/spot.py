"""A place in one queue's log, as positions spell it: `epoch-sequence-mark`, or `epoch-` before the first entry.

A server that went back in time gives its sequences out again. The entry behind one is then another, with another mark,
and whoever reads on from there notices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

UNBORN = "0"
"""The epoch of a queue that is listed, and has no log yet: one begins with its first step."""
_SPOT = re.compile(r"([0-9]{1,20})-(?:([0-9]{1,20})(?:-([0-9a-f]{8}))?)?").fullmatch


class Spot(NamedTuple):
    """After an entry, or before the first. Positions of earlier versions have no mark."""

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


def spot_of(text: str) -> Spot | None:
    """Return the place that a text names, `None` when it names none."""
    found = _SPOT(text)
    return None if found is None else Spot(found[1], int(found[2] or -1), found[3] or "")


def spot_at(id: bytes, fields: Sequence[bytes]) -> Spot:
    """Return the place after an entry."""
    epoch, _, seq = id.decode().partition("-")
    return Spot(epoch, int(seq), mark_of(fields))


def mark_of(fields: Sequence[bytes]) -> str:
    """Return what tells an entry from another one with the same id: a sum over its job's id and all that it says."""
    return f"{crc32(b''.join(fields[3:4]), crc32(b''.join(fields[1:2]))):08x}"  # one that is not ours may have less
