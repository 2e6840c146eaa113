"""How many jobs each queue had in each of the last minutes."""

from __future__ import annotations

from collections.abc import Iterable

from ...store.contract import QueueInfo
from .records import MOST_QUEUES
from .traffic import MINUTES
from .view import DepthChart

STATES = ("waiting", "scheduled", "blocked", "active", "failed")
_MINUTE_MS = 60_000
Depth = tuple[int | None, ...]
"""Jobs by state, in the order of `STATES`, and the age of the oldest waiting one."""


class Depths:
    """What was seen of each queue, the last time of each minute."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, Depth]] = {}

    def note(self, queues: Iterable[QueueInfo], now_ms: int) -> None:
        """Take note of what queues have now; queues that are gone are forgotten."""
        minute = now_ms // _MINUTE_MS
        noted: dict[str, dict[int, Depth]] = {}
        for info in list(queues)[:MOST_QUEUES]:
            before = self._seen.get(info.name, {})
            noted[info.name] = {each: depth for each, depth in before.items() if each > minute - MINUTES}
            noted[info.name][minute] = _depth(info, now_ms)
        self._seen = noted

    def chart(self, queue: str, now_ms: int) -> DepthChart:
        """Return a column for each minute that is kept."""
        last = now_ms // _MINUTE_MS
        first = last - MINUTES + 1
        nothing: Depth = (None,) * (len(STATES) + 1)
        seen = self._seen.get(queue, {})
        rows = [seen.get(minute, nothing) for minute in range(first, last + 1)]
        columns = zip((*STATES, "oldest_age_ms"), zip(*rows, strict=True), strict=True)
        return DepthChart(
            begin_ms=first * _MINUTE_MS, step_ms=_MINUTE_MS, **{name: list(column) for name, column in columns}
        )

    def waiting(self, queue: str, now_ms: int, minutes_ago: int) -> int | None:
        """Return how many jobs waited so long ago; `None` when nobody looked then."""
        depth = self._seen.get(queue, {}).get(now_ms // _MINUTE_MS - minutes_ago)
        return None if depth is None else depth[0]


def _depth(info: QueueInfo, now_ms: int) -> Depth:
    oldest = info.oldest_waiting_ms
    age = None if oldest is None else max(0, now_ms - oldest)
    return (*(info.counts.get(state, 0) for state in STATES), age)
