"""Which events lie between two positions, whatever snapshot reads them."""

from __future__ import annotations

import msgspec

from ..scan import Part
from .look import Position

Key = tuple[int, int]
"""A place in the order of events: transaction and sequence."""
START: Key = (0, 0)


class PostgresPart(Part, frozen=True, kw_only=True):
    """Rows above `low`, up to `high`: places in the log, or runs."""

    low: Key = START
    high: Key = START
    epoch: str = ""
    late: dict[int, int] | None = None
    """Only these transactions, each from the event after this: they were open at the position before."""
    open: dict[int, int] = {}
    """Not these transactions beyond this event: they were open at the position after."""
    rows: int | None = None
    """How many there were when it was planned."""


class Log(msgspec.Struct):
    """The log as one snapshot sees it."""

    epoch: str
    trimmed: int
    newest: int
    in_flight: list[int]
    last: Key


class Nth(msgspec.Struct):
    """An event in the log, and the highest sequence up to it."""

    xid: int
    seq: int
    seen: int


def end_of(log: Log) -> Position:
    """Return the position after all that a snapshot sees."""
    at = Position(f"{log.epoch}:0:0:{log.trimmed}")
    at.advance(*log.last, log.in_flight)
    return at


def ranges(after: Position, upto: Position) -> list[PostgresPart]:
    """Return what lies between two positions: what was late at the first, and what came after it."""
    low, high = (after.xid, after.seq), (upto.xid, upto.seq)
    new = PostgresPart(low=low, high=high, epoch=upto.epoch, open=upto.open)
    if not after.open:
        return [new]
    return [PostgresPart(high=min(low, high), epoch=upto.epoch, open=upto.open, late=after.open), new]


def cut(after: Position, upto: Position, place: Nth) -> Position:
    """Return the position between two others up to which a place, and all before it, have been read."""
    at = Position(str(after))
    at.seen = max(after.seen, place.seen)
    if (place.xid, place.seq) > (after.xid, after.seq):
        at.xid, at.seq = place.xid, place.seq
        at.open = {xid: seq for xid, seq in upto.open.items() if xid < place.xid}
    else:
        passed = {xid: upto.open.get(xid) for xid in after.open if xid < place.xid}
        later = {xid: seq for xid, seq in after.open.items() if xid > place.xid}
        at.open = {xid: seq for xid, seq in passed.items() if seq is not None} | {place.xid: place.seq} | later
    return at
