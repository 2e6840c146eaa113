"""Which part of each queue's log lies between two positions."""

from __future__ import annotations

import msgspec

from ...scan import ScanPart, ScanPlan
from .position import QueuePosition


class RedisPart(ScanPart, frozen=True, kw_only=True):
    """Numbers above `low`, up to `high`, of one queue: sequences of events, or runs."""

    queue: str
    low: int = -1
    high: int = -1
    epoch: str = ""
    anchored: bool = False
    """Whether a reader has read up to `low`, so that whatever is gone above it is a gap."""
    all: bool = False
    """Every record of the queue, in no order."""
    but: tuple[str, ...] | None = None
    """Every record of all queues but these: of those that came after the plan was made."""


class LogRange(msgspec.Struct, frozen=True):
    """The log of one queue: its epoch, its first sequence, and its last (before the first, when it is empty)."""

    epoch: str
    first: int
    last: int
    marks: dict[int, str] = {}
    """By sequence: the marks of entries that were looked at, because a position is there."""

    def position(self, seq: int) -> QueuePosition:
        """Return the position after an entry, or before the first."""
        return QueuePosition(self.epoch, seq, self.marks.get(seq, ""))


def low_of(at: QueuePosition | None, log: LogRange) -> tuple[int, bool]:
    """Return the sequence after which reading goes on, and whether the log is another one."""
    if at is None or at.unborn:
        return -1, False  # a queue that is younger than the position, or no position at all
    replaced = at.mark and log.marks.get(at.seq, at.mark) != at.mark
    return (-1, True) if at.epoch != log.epoch or at.seq > log.last or replaced else (at.seq, False)


def ending(log: LogRange, at: QueuePosition) -> LogRange:
    """Return the log as if it ended at a position."""
    return msgspec.structs.replace(log, last=low_of(at, log)[0])


def range_of(
    plan: ScanPlan, queue: str, log: LogRange, known: dict[str, QueuePosition], upto: dict[str, QueuePosition] | None
) -> list[RedisPart]:
    """Return what is to be read of one queue's log, and before it, when that is so, that the log was reset."""
    low, reset = low_of(known.get(queue), log)
    anchored = plan.after is not None and not reset
    if not anchored:
        low = log.first - 1
    high, gone = log.last, False
    if upto is not None:
        high, gone = low_of(upto.get(queue), log)
    part = RedisPart(queue=queue, low=low, high=high, epoch=log.epoch, anchored=anchored)
    gap = [RedisPart(queue=queue, reset=True)] if reset or gone else []
    return gap + ([part] if high > low and not gone else [])


def fair(left: dict[str, int], limit: int) -> dict[str, int]:
    """Return how much each may take, so that all take at most the limit and none waits for a larger one."""
    taken = dict.fromkeys(left, 0)
    for index, name in enumerate(sorted(left, key=lambda each: left[each])):
        share = (limit - sum(taken.values())) // (len(left) - index)
        taken[name] = min(left[name], share)
    spare = limit - sum(taken.values())
    for name in sorted(left):
        more = min(spare, left[name] - taken[name])
        taken[name] += more
        spare -= more
    return taken
