"""Visits: which queues of a session a turn has to visit, when the session has many.

A queue in which the session found too few jobs is dry: the session is parked there, in the same step in which it
looked, and a wake-up names the queue. So it need not be visited again before that, or before something is due there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ...core.limit import QueueSettings
from ..contract import Session

FEW = 16
"""A session of so many queues visits all of them in each turn, which is one call."""
AT_ONCE = 64
"""How many queues of a session with more of them one call visits, apart from those in which it settles."""


def _now_ms() -> float:
    return time.monotonic() * 1000


class Visits:
    """What one session of many queues knows of them from its turns and wake-ups."""

    def __init__(self, session: Session, clock: Callable[[], float] | None = None) -> None:
        self.queues = frozenset(session.queues)
        self.settings: dict[str, QueueSettings] = {}
        """The last known of each queue; another dict whenever anything of it is another."""
        self.suspects: set[str] = set()
        """Queues in which a suspect was left."""
        self.width = AT_ONCE
        """From how many queues that may have jobs the next turn claims at first."""
        self.connections = -1
        """How often anything had been connected when the dry queues were last sure to be so."""
        self._clock = clock or _now_ms
        self._again_after_ms = session.lease_ms / 3
        self._seen: dict[str, float] = dict.fromkeys(session.queues, float("-inf"))
        """By queue, when it was last visited: the longest ago first."""
        self._dry: set[str] = set()
        self.next_at: dict[str, int] = {}
        """Of dry queues with something that is due later: when, by the clock of the store."""
        self._rung: dict[str, int] = {}
        """By queue, the number of the last wake-up that no visit has followed yet."""
        self._rings = self._all_rung = 0
        self._store_ahead_ms = 0.0

    def ring(self, queue: str | None) -> None:
        """Note a wake-up for a queue; `None`: for any of them."""
        self._rings += 1
        if queue is None:
            self.forget()
        elif queue in self.queues:
            self._rung[queue] = self._rings
            self._dry.discard(queue)
            self.next_at.pop(queue, None)

    def forget(self) -> None:
        """Visit every queue again, as the session may be parked in none of them."""
        self._rings += 1
        self._all_rung = self._rings
        self._dry.clear()
        self.next_at.clear()

    @property
    def rings(self) -> int:
        """The number of the last wake-up, for a turn that is about to be sent."""
        return self._rings

    def stale(self) -> list[str]:
        """Return the queues in which the session was not heard by a turn for a third of its lease."""
        before, found = self._clock() - self._again_after_ms, []
        for queue, at in self._seen.items():
            if at > before:
                break
            found.append(queue)
        return found

    def due(self) -> list[str]:
        """Return the queues that wake-ups name. Others in which something is due, or which are stale, are not dry."""
        now = self._clock() + self._store_ahead_ms
        self._dry.difference_update(self.stale())
        for queue in [queue for queue, at in self.next_at.items() if at <= now]:
            del self.next_at[queue]
            self._dry.discard(queue)
        return list(self._rung)

    @property
    def longest_ago(self) -> str:
        """The queue that was visited the longest ago."""
        return next(iter(self._seen))

    def open(self, order: Iterable[str]) -> list[str]:
        """Return those of the queues that may have jobs, in this order."""
        dry = self._dry
        return [queue for queue in order if queue not in dry]

    def visited(self, queue: str, rings: int, dry: bool, next_at: int, suspects: bool) -> None:
        """Note a visit by a turn that was sent after so many wake-ups. A later one may be for what it did not find."""
        del self._seen[queue]
        self._seen[queue] = self._clock()
        rung = self._rung.get(queue, 0) > rings or self._all_rung > rings
        if not rung:
            self._rung.pop(queue, None)
        (self.suspects.add if suspects else self.suspects.discard)(queue)
        if dry and not suspects and not rung:
            self._dry.add(queue)
            if next_at >= 0:
                self.next_at[queue] = next_at
        else:
            self._dry.discard(queue)
            self.next_at.pop(queue, None)

    def told(self, settings: dict[str, QueueSettings], now_ms: int) -> None:
        """Note the settings of the queues that a call visited, and the time of the store."""
        self._store_ahead_ms = now_ms - self._clock()
        if any(self.settings.get(queue) is not each for queue, each in settings.items()):
            self.settings = {**self.settings, **settings}
