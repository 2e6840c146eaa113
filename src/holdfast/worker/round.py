"""A round: each group of queues is asked once, before the worker sleeps."""

from __future__ import annotations

import time

from ..store.contract import Turn


class Round:
    """Which groups were asked, and had less than there was room for; and when something next becomes claimable."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.hungry: list[str] = []
        """Queues whose jobs wait and are too large for the room of the moment."""
        self.again = False
        """Somebody called since the first was asked: it may have been for a queue that was asked already."""
        self._next_at: float | None = None

    def begin(self) -> None:
        """All groups are to be asked."""
        self.asked.clear()
        self.again = False

    def call(self) -> None:
        """Those that were asked are to be asked again, but after those that wait for their turn."""
        self.again = self.again or bool(self.asked)

    def had_less(self, group: str, turn: Turn) -> None:
        """The group is asked for now."""
        self.asked.add(group)
        if turn.next_at_ms is not None:
            at = time.monotonic() + (turn.next_at_ms - turn.now_ms) / 1000
            self._next_at = at if self._next_at is None else min(at, self._next_at)

    def seconds(self, most: float) -> float:
        """Return how long nothing becomes claimable in any of the queues that were asked; at most so long."""
        at, self._next_at = self._next_at, None
        return most if at is None else min(most, max(0.0, at - time.monotonic()))
