"""Turns of a session with many queues: which of them one call asks, and which it passes over.

A worker gives its queues in the order in which they are served, and a turn is mostly filled by the first few that have
jobs. So a call names those alone. A queue that had nothing when its turn came keeps its place, but is asked behind the
others for some turns: else each turn would ask all that others have emptied. Where priorities differ, none is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from ...core.bound import FEW_QUEUES
from ...core.limit import QueueSettings
from ..contract import Session, Turn

AT_ONCE = 64
"""How many queues the first call of a turn names at most, if the last turn was filled."""
BEHIND = 10
"""For so many turns that bring jobs a queue that had none is asked behind the others."""


class TurnRequest(msgspec.Struct, frozen=True):
    """What a turn is to claim, as the contract has it."""

    queues: Sequence[str]
    room: int
    park: bool
    held: int
    only_suspects: bool

    def after(self, turn: Turn) -> TurnRequest:
        """Return what is wanted still: of a suspect the session has no more company than that allows."""
        most = [job.company - self.held for job in turn.claimed if job.company is not None]
        room = min([self.room, *most]) - len(turn.claimed)
        return replace(self, room=room, held=self.held + len(turn.claimed))


def joined(turns: Sequence[Turn], settings: dict[str, QueueSettings]) -> Turn:
    """Return what several calls told as one turn: the first has settled, the last knows who must stop."""
    return replace(
        turns[-1],
        late=any(turn.late for turn in turns),
        settled=turns[0].settled,
        claimed=[job for turn in turns for job in turn.claimed],
        next_at_ms=min((turn.next_at_ms for turn in turns if turn.next_at_ms is not None), default=None),
        settings=settings,
        more=any(turn.more for turn in turns),
        suspects=tuple(queue for turn in turns for queue in turn.suspects),
        unsure=any(turn.unsure for turn in turns),
    )


class ManyQueues:
    """What one session of many queues knows of them from its turns."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings: dict[str, QueueSettings] = {}
        """As they were last told; another mapping whenever they were told again."""
        self.names = session.queues
        self._clock = clock
        self._told_for = session.lease_ms / 3000
        self._told_at = float("-inf")
        self._ranked = False
        """Some queue has a priority: then each is asked where its place is."""
        self._turns = 0
        self._behind: dict[str, int] = {}
        """By queue without jobs: until which turn it is asked behind the others."""
        self._width: int | None = None
        """How many queues the next turn names first; `None`: all, as the last one was not filled."""

    def wants_settings(self) -> bool:
        """Return whether a turn is to tell the settings of all queues again, as after a third of a lease."""
        return self._clock() - self._told_at >= self._told_for

    def told(self, settings: dict[str, QueueSettings]) -> None:
        """Note the settings of all queues."""
        self._told_at = self._clock()
        self._ranked = len({each.priority for each in settings.values()}) > 1
        if settings != self.settings:
            self.settings = settings

    def parts(self, order: Sequence[str]) -> Iterator[tuple[Sequence[str], bool]]:
        """Yield the queues part by part, and whether a part is the last."""
        behind = [] if self._ranked else [queue for queue in order if self._behind.get(queue, 0) > self._turns]
        if behind:
            passed = frozenset(behind)
            order = [*(queue for queue in order if queue not in passed), *behind]
        if self._width is None or len(order) <= self._width:
            yield order, True
            return
        width = self._width
        yield order[:width], False
        yield order[width:], True

    def answered(self, asked: Sequence[str], turn: Turn, room: int) -> None:
        """Note what a turn brought that asked these queues, in their order, and had so much room."""
        if room <= 0:
            return
        gave = {job.lease.queue for job in turn.claimed}
        filled, reached = len(turn.claimed) >= room, len(asked)
        if filled:
            reached = max(at for at, queue in enumerate(asked, start=1) if queue in gave)
        self._width = min(max(2 * reached, FEW_QUEUES), AT_ONCE) if filled else None
        self._turns += bool(gave)
        for queue in asked[:reached]:
            if queue in gave:
                self._behind.pop(queue, None)
            else:
                self._behind[queue] = self._turns + BEHIND
