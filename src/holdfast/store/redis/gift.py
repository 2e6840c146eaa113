"""Jobs that came with a wake-up: `lua/give.lua` claims them for a worker that has nothing to do.

A message may be lost, late, or overtaken by the reply to a turn, which then has the same jobs. Gifts are numbered, and
each is handed on once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..contract import Claimed, Lease, Released, Settlement, Turn
from . import record

_HEAD = struct.Struct(">I7s")
_JOB = struct.Struct(">6s7sI")


class Gifts:
    """What one session was given."""

    def __init__(self, queue: str, wake: Callable[[], None]) -> None:
        self.queue = queue
        self.wake = wake
        self.received = 0
        """The number of the latest gift that is known here."""
        self.waiting: list[Claimed] = []
        """What was given, and not handed on yet."""
        self.broken: list[int] = []
        """Runs among what was given that cannot be read: to be set aside."""
        self.handed = 0
        """How many jobs were handed on so far."""
        self._last = Turn()
        self._now_ms = 0
        self._held: frozenset[Lease] = frozenset()

    def hear(self, text: bytes) -> None:
        """What a message brought is waiting, unless it is known already."""
        number, now = _HEAD.unpack_from(text)
        if number != self.received + 1:
            return  # known; or one before it is missing, and the next turn brings what there is
        at, jobs, now_ms = _HEAD.size, [], int.from_bytes(now, "big")
        while at < len(text):
            rid, timeout, size = _JOB.unpack_from(text, at)
            at += _JOB.size + size
            run, timeout_ms = int.from_bytes(rid, "big"), int.from_bytes(timeout, "big") - 1
            readable, _ = record.claimed_all(self.queue, (run, text[at - size : at], timeout_ms), now_ms)
            if not readable:
                return  # the next turn brings what there is, and sets aside what cannot be read
            jobs += readable
        self._now_ms = now_ms
        self._take(number, jobs)

    def hear_again(self, reply: list[Any], now_ms: int) -> None:
        """What a turn says was given is waiting, unless a message was quicker."""
        number, *flat = reply
        if number > self.received:
            jobs, self.broken = record.claimed_all(self.queue, flat, now_ms)
            self._take(number, jobs)

    def _take(self, number: int, jobs: Sequence[Claimed]) -> None:
        self.received = number
        self.waiting += [job for job in jobs if job.lease not in self._held]
        self._held = frozenset()

    def known(self, held: Sequence[Claimed]) -> None:
        """The session has asked what it holds: gifts among it are not handed on a second time."""
        self._held = frozenset(job.lease for job in held)
        self.waiting = [job for job in self.waiting if job.lease not in self._held]  # others came after the answer

    def take(self, room: int) -> list[Claimed]:
        """Return what is waiting, all of it; nothing when there is no room for all of it."""
        if len(self.waiting) > room:
            return []
        jobs, self.waiting = self.waiting, []
        self.handed += len(jobs)
        return jobs

    def hand_back(self) -> list[Settlement]:
        """Return the words that give back what nobody here has room for."""
        jobs, self.waiting = self.waiting, []
        return [Released(job.lease) for job in jobs]

    def turn(self, jobs: list[Claimed]) -> Turn:
        """Return the jobs as a turn for which nobody had to be asked; what else it says is as it was."""
        return Turn(claimed=jobs, now_ms=self._now_ms, next_at_ms=self._last.next_at_ms, settings=self._last.settings)

    def after(self, turn: Turn) -> None:
        """The worker has talked with the store. What it had no room for makes it do so again."""
        self._last = turn
        if self.waiting:
            self.wake()
