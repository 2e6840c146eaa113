"""A page of events, added up: so that what is kept of them is touched a few times for each page, not for each event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ...core.event import Event
from .kind import kind_of
from .spread import bucket_of

Where = tuple[str, str | None, int]
"""A queue, a task, and a second of the store's clock."""


class Digest(msgspec.Struct):
    """How often what happened, where and when; and the errors among it, each event of them."""

    counts: Counter[tuple[Where, int]]
    waits: Counter[tuple[Where, int]]
    runs: Counter[tuple[Where, int]]
    longest_wait: dict[Where, int]
    longest_run: dict[Where, int]
    errors: list[Event]
    last_ms: int = 0


def digest(events: Iterable[Event], now_ms: int) -> Digest:
    """Return events added up. One that is dated later than now, by a clock that was wrong, counts as of now."""
    made = Digest(Counter(), Counter(), Counter(), {}, {}, [])
    latest = now_ms // 1000
    counts, waits, runs = made.counts, made.waits, made.runs
    for event in events:
        kind = kind_of(event)
        if kind is None:
            continue
        where = (event.queue, event.task, min(latest, event.at_ms // 1000))
        counts[where, kind] += 1
        if event.wait_ms is not None:
            waits[where, bucket_of(event.wait_ms)] += 1
            if event.wait_ms > made.longest_wait.get(where, -1):
                made.longest_wait[where] = event.wait_ms
        if event.run_ms is not None:
            runs[where, bucket_of(event.run_ms)] += 1
            if event.run_ms > made.longest_run.get(where, -1):
                made.longest_run[where] = event.run_ms
        if event.error_signature is not None:
            made.errors.append(event)
        made.last_ms = event.at_ms
    return made
