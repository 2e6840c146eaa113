"""How fast the log is followed: soon while something happens, seldom while nothing does, never at the store's cost."""

from __future__ import annotations

import time
from collections.abc import Callable

from .options import RecentOptions

_UNREAD_AFTER = 60.0
_GROWTH = 1.5
_LONGEST_FAILING = 5.0


class Pace:
    """Says how long to pause, and when to give up catching up."""

    def __init__(self, options: RecentOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._interval = options.interval
        self._read_at = clock()
        self._behind_since: float | None = None
        self._caught_up = False
        self._pages = 0

    @property
    def behind(self) -> bool:
        """Whether the last page was full."""
        return self._behind_since is not None

    def looked_at(self) -> None:
        """Somebody reads what is kept."""
        self._read_at = self._clock()

    def pause(
        self, spent: float, *, full: bool, failed: bool, eager: bool = False, crowded: bool = False, cost: float = 0.0
    ) -> float:
        """Return how long to wait before the next page, after one that took `spent` seconds, `cost` of them at work."""
        options = self._options
        if failed:
            self._interval = min(_LONGEST_FAILING, max(1.0, self._interval * _GROWTH))
            return self._interval
        if full:
            most = options.crowded_events if crowded else options.most_events
            every = max(options.page / most, cost / options.crowded_share if crowded else 0.0)
            return max(spent * (1 / options.share - 1), every - spent)
        if eager:
            return options.eager_interval if self._interval == options.interval else options.interval
        if self._clock() - self._read_at > _UNREAD_AFTER:
            return options.unread_interval
        return self._interval

    def saw(self, events: int) -> bool:
        """Take note of a page; return whether it was full, so that more may be there already."""
        grown = self._interval * _GROWTH
        self._interval = self._options.interval if events else min(self._options.idle_interval, grown)
        return events >= self._options.page

    def hopeless(self, *, full: bool, lag_ms: int) -> bool:
        """Return whether to leave events out. The first catching up has as many pages as it was asked to go back."""
        now = self._clock()
        self._pages += 1
        if not full:
            self._caught_up, self._behind_since = True, None
            return False
        if self._behind_since is None:
            self._behind_since = now
        if not self._caught_up and self._pages * self._options.page <= 2 * self._options.back:
            return False
        patience = self._options.patience
        if now - self._behind_since < patience or lag_ms < patience * 1000:
            return False
        self._caught_up, self._behind_since = True, None
        return True
