"""Wrong passwords cost time: the more there were of late, the longer the next try must wait."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

FREE = 5
"""So many wrong tries in a row cost nothing."""
LONGEST = 300.0
"""No wait has more seconds; after as long without a wrong try, all is forgotten."""
MOST = 10_000


class Tries(msgspec.Struct):
    """The wrong tries of one address, or for one name."""

    count: int = 0
    last: float = 0.0


class Throttle:
    """Counts wrong logins by address and by name, and says for how long a try must wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tries: dict[str, Tries] = {}

    def wait(self, *whose: str) -> float:
        """Return for how many seconds these must wait before they may try."""
        return max((self._wait(self._tries.get(each)) for each in whose), default=0.0)

    def _wait(self, tries: Tries | None) -> float:
        if tries is None or tries.count < FREE:
            return 0.0
        pause = min(LONGEST, 2.0 ** (tries.count - FREE))
        return float(max(0.0, tries.last + pause - self._clock()))

    def failed(self, *whose: str) -> None:
        """One more try of these was wrong."""
        now = self._clock()
        for each in whose:
            tries = self._tries.pop(each, None)
            if tries is None or tries.last + 2 * LONGEST < now:
                tries = Tries()
            tries.count, tries.last = tries.count + 1, now
            self._tries[each] = tries  # at the end, so that the oldest stand in front
        while len(self._tries) > MOST:
            del self._tries[next(iter(self._tries))]

    def succeeded(self, *whose: str) -> None:
        """These are forgotten."""
        for each in whose:
            self._tries.pop(each, None)
