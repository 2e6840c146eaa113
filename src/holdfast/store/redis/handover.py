"""Hand-over: jobs that come with a wake-up; `lua/lib/hand_over.lua` claims them for a worker that is idle.

A message may be lost, late, or overtaken by the reply to a turn, which then has the same jobs. Hand-overs are numbered,
and each counts once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from ..contract import Claimed, Lease, Released, Settlement, Turn
from .arguments.entry import Flat
from .arguments.work import GivenFields
from .record.view import claimed_all

_HEAD = struct.Struct(">I7s")
_JOB = struct.Struct(">6s7sI")


class HandOver:
    """What was handed over to one session."""

    def __init__(self, queue: str, wake: Callable[[], None]) -> None:
        self.queue = queue
        self.wake = wake
        self.received = 0
        """The number of the latest hand-over that is known here."""
        self.waiting: list[Claimed] = []
        """What was handed over, and not taken yet."""
        self.broken: list[int] = []
        """Runs among it that cannot be read: to be set aside."""
        self.taken = 0
        """How many jobs were taken so far."""
        self._last = Turn()
        self._now_ms = 0
        self._held: frozenset[Lease] = frozenset()

    def receive(self, text: bytes) -> None:
        """Note what a message brought, unless it is known already."""
        number, now = _HEAD.unpack_from(text)
        if number != self.received + 1:
            return  # known; or one before it is missing, and the next turn brings what there is
        at, end, flat = _HEAD.size, len(text), Flat()
        while at < end:
            rid, timeout, size = _JOB.unpack_from(text, at)
            at += _JOB.size + size
            flat += (rid, text[at - size : at], int.from_bytes(timeout, "big") - 1)
        now_ms = int.from_bytes(now, "big")
        jobs, broken = claimed_all(self.queue, flat, now_ms)
        if broken:
            return  # the next turn brings what there is, and sets aside what cannot be read
        self._now_ms = now_ms
        self._note(number, jobs)

    def catch_up(self, given: GivenFields, now_ms: int) -> None:
        """Note what a turn says was handed over, unless a message was quicker."""
        if given.number > self.received:
            jobs, self.broken = claimed_all(self.queue, given.claimed, now_ms)
            self._note(given.number, jobs)

    def _note(self, number: int, jobs: Sequence[Claimed]) -> None:
        self.received = number
        self.waiting += [job for job in jobs if job.lease not in self._held]
        self._held = frozenset()

    def leave_out(self, held: Sequence[Claimed]) -> None:
        """Leave out what the session has just been told that it holds: it has those jobs already."""
        self._held = frozenset(job.lease for job in held)
        self.waiting = [job for job in self.waiting if job.lease not in self._held]  # others came after the answer

    def take(self, room: int) -> list[Claimed]:
        """Return what is waiting, all of it; nothing when there is no room for all of it."""
        if len(self.waiting) > room:
            return []
        jobs, self.waiting = self.waiting, []
        self.taken += len(jobs)
        return jobs

    def give_back(self) -> list[Settlement]:
        """Return the settlements that give back what there is no room for."""
        jobs, self.waiting = self.waiting, []
        return [Released(job.lease) for job in jobs]

    def turn(self, jobs: list[Claimed]) -> Turn:
        """Return the jobs as a turn for which the store was not asked; what else it says is as it was."""
        return Turn(claimed=jobs, now_ms=self._now_ms, next_at_ms=self._last.next_at_ms, settings=self._last.settings)

    def after(self, turn: Turn) -> None:
        """Note a turn with the store. What it left no room for wakes the worker again."""
        self._last = turn
        if self.waiting:
            self.wake()
