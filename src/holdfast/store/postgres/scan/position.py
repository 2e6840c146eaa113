"""Where a reader of the log is: what it has read, though transactions are committed in another order than they began.

Events have numbers, which are drawn while their job is locked: an event that depends on another has a higher number. So
the events that one snapshot sees, in the order of their numbers, are in an order in which they may have happened. But a
transaction that is open when others are read may have numbers below theirs, and its events come when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import msgspec

from ....errors import ConfigError
from ...rows import Row
from ..call.array import numbers, texts


class Late(NamedTuple):
    """Transactions of which no event behind a certain number was read: they may have been open then."""

    first: int
    last: int
    read: int

    def __str__(self) -> str:
        return f"{self.first}.{self.read}" if self.first == self.last else f"{self.first}-{self.last}.{self.read}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what was written."""
        names, _, read = text.partition(".")
        first, _, last = names.partition("-")
        return cls(int(first), int(last or first), int(read))


class Position(msgspec.Struct, frozen=True):
    """Every event up to a number was read, but for those of the late transactions."""

    epoch: str = ""
    number: int = 0
    late: tuple[Late, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return a position that a reader has kept."""
        try:
            epoch, number, *rest = text.split(":")
            (late,) = rest or [""]
            return cls(epoch, int(number), tuple(map(Late.parse, late.split(",") if late else ())))
        except ValueError:
            raise ConfigError(f"position {text!r} is not one that the event log gave") from None

    def __str__(self) -> str:
        text = f"{self.epoch}:{self.number}"
        return f"{text}:{','.join(map(str, self.late))}" if self.late else text

    @property
    def whole(self) -> int:
        """The number up to which everything was read, or never will be there."""
        return min([self.number, *(each.read for each in self.late)])

    def values(self) -> dict[str, str | int | None]:
        """Return the position as the statements take it."""
        return {"number": self.number, **late_values(self.late)}


def late_values(late: Sequence[Late]) -> dict[str, str | None]:
    """Return late transactions as the statements take them."""
    return {
        "first": texts([str(each.first) for each in late]),
        "last": texts([str(each.last) for each in late]),
        "read": numbers([each.read for each in late]),
    }


def is_of_another(at: Position, log: Row) -> bool:
    """True for another log than this, or this one as a backup had it; a replica may just not have come so far."""
    return at.epoch not in ("", log["epoch"]) or (at.number > log["newest"] and not log["replica"])


def end_of(log: Row, after: Position) -> Position:
    """Return the position after all that a snapshot sees, and that may be read behind another position."""
    xmin, xmax, in_flight = log["snapshot"].split(":")
    newest = max(log["last"] or 0, log["trimmed"], after.number)
    if log["stop"] is not None:
        newest = log["stop"] - 1
    names = [int(xid) for xid in in_flight.split(",") if xid and not log["replica"]]
    # A replica's snapshots do not name the transactions that were open, only the oldest.
    rest = Late(int(xmin if log["replica"] else xmax), log["next"] - 1, 0)
    late = [*(Late(xid, xid, 0) for xid in names), *([rest] if rest.first <= rest.last else [])]
    return Position(log["epoch"], newest, tuple(late))


def cut(after: Position, upto: Position, number: int) -> Position:
    """Return the position behind `after` at which what lies before `upto` has been read, up to a number."""
    if number >= after.number:
        late = [
            piece._replace(read=max(piece.read, after.number if before is None else before.read))
            for piece, before in _pieces(upto.late, after.late)
        ]
    else:
        late = [
            piece._replace(read=max(piece.read, number if still is None else min(number, still.read)))
            for piece, still in _pieces(after.late, upto.late)
        ]
    number = max(number, after.number)
    return Position(upto.epoch, number, tuple(sorted(each for each in late if each.read < number)))


def _pieces(late: Sequence[Late], others: Sequence[Late]) -> Iterator[tuple[Late, Late | None]]:
    """Yield transactions in pieces, each with that of the others in which it lies, if it lies in one."""
    for each in late:
        first = each.first
        for other in sorted(others):
            if other.last < first or other.first > each.last:
                continue
            if other.first > first:
                yield Late(first, other.first - 1, each.read), None
            last = min(each.last, other.last)
            yield Late(max(first, other.first), last, each.read), other
            first = last + 1
        if first <= each.last:
            yield Late(first, each.last, each.read), None
