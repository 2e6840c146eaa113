"""A round: each group of queues is asked once, before the worker sleeps."""

from __future__ import annotations

import time

from ..store.contract import Turn

DRY_FOR = 10
"""A group that had less than there was room for is passed over for so many turns that bring something from others:
not for ever, as a worker with a backlog never sleeps, and not for one alone, as each look costs a call."""


class Round:
    """Which groups had less than there was room for; and when something next becomes claimable."""

    def __init__(self) -> None:
        self.hungry: list[str] = []
        """Queues whose jobs wait and are too large for the room of the moment."""
        self.again = False
        """Somebody called since the first was asked: it may have been for a queue that was asked already."""
        self._brought = 0
        self._dry: dict[str, int] = {}
        self._next_at: float | None = None

    @property
    def asked(self) -> bool:
        """True when some group was asked, and had less."""
        return bool(self._dry)

    def is_dry(self, group: str) -> bool:
        """Return whether the group need not be asked yet."""
        return self._dry.get(group, -1) > self._brought

    def begin(self) -> None:
        """All groups are to be asked."""
        self._dry.clear()
        self.again = False

    def call(self) -> None:
        """Those that were asked are to be asked again, but after those that wait for their turn."""
        self.again = self.again or self.asked
        for group in self._dry:
            self._dry[group] = min(self._dry[group], self._brought + 1)

    def brought(self) -> None:
        """A turn brought jobs."""
        self._brought += 1

    def had_enough(self, group: str) -> None:
        """The group may have more."""
        self._dry.pop(group, None)

    def had_less(self, group: str, turn: Turn) -> None:
        """The group need not be asked for now."""
        self._dry[group] = self._brought + DRY_FOR
        if turn.next_at_ms is not None:
            at = time.monotonic() + (turn.next_at_ms - turn.now_ms) / 1000
            self._next_at = at if self._next_at is None else min(at, self._next_at)

    def seconds(self, most: float) -> float:
        """Return how long nothing becomes claimable in any of the queues that were asked; at most so long."""
        at, self._next_at = self._next_at, None
        return most if at is None else min(most, max(0.0, at - time.monotonic()))
