"""A clock that stands still until a test moves it."""

from __future__ import annotations

from ..core.duration import Instant, instant_ms

START_MS = 1_700_000_000_000


class ManualClock:
    """Give it to a store as its `clock`: it returns milliseconds, and only `advance` changes them."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now_ms = start_ms

    def __call__(self) -> int:
        return self._now_ms

    @property
    def now_ms(self) -> int:
        """The instant at which the clock stands."""
        return self._now_ms

    def advance(self, seconds: float) -> int:
        """The clock is so much further; it never goes back. Return where it stands."""
        if seconds < 0:
            raise ValueError(f"advance({seconds!r}): a manual clock only goes forwards")
        self._now_ms += round(seconds * 1000)
        return self._now_ms

    def advance_to(self, instant: Instant) -> int:
        """The clock stands at this instant, which is not before the one of now. Return where it stands."""
        self.advance((instant_ms(instant, "instant") - self._now_ms) / 1000)
        return self._now_ms
