"""Which pages of a log can have events of a time, by the times of the entries between pages.

A log is in the order in which its events were written, and the server's clock may have been set back meanwhile. A page
is left out only where the entries at both its ends are on the same side of the wanted time, by more than `SLACK_MS`. So
a clock that was wrong is noticed, unless it was set wrong by more than that, and right again, within one page.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...scan import ScanPlan
from .pruning import MOST, bounds_of
from .ranges import RedisPart

PAGE = 2_000
"""Events between two entries that are looked at, at least."""
PAGES = 500
"""Entries that are looked at, at most: each is a call of the server."""
SLACK_MS = 10 * 60 * 1000
TimeOf = Callable[[str, str, int], int | None]
"""When an event of a queue and an epoch happened, by its sequence."""


def within_times(plan: ScanPlan, part: RedisPart, time_of: TimeOf) -> list[RedisPart]:
    """Return the pages of a part that can have events of the wanted time, joined where they follow each other."""
    first, last = bounds_of(plan, "at_ms")
    if part.reset or (first, last) == (0, MOST):
        return [part]
    size = max(PAGE, -(-(part.high - part.low) // PAGES))
    edges = [*range(part.low, part.high, size), part.high]
    times = [time_of(part.queue, part.epoch, max(seq, part.low + 1)) for seq in edges]
    found: list[RedisPart] = []
    for low, high, *seen in zip(edges, edges[1:], times, times[1:], strict=False):
        if _is_outside(seen, first - SLACK_MS, last + SLACK_MS):
            continue
        if found and found[-1].high == low:
            found[-1] = msgspec.structs.replace(found[-1], high=high)
        else:
            found.append(msgspec.structs.replace(part, low=low, high=high))
    return found


def _is_outside(times: list[int | None], first: int, last: int) -> bool:
    """Return whether all times are known, and all before the first or all after the last."""
    known = [time for time in times if time is not None]
    return len(known) == len(times) and (max(known) < first or min(known) > last)
