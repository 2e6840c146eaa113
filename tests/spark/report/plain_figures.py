"""A report's figures, worked out from events in plain Python."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from truth import percentile

from holdfast import Event

WRONG = ("retry", "fail", "reap")
"""How attempts end that went wrong."""


def at(event: Event) -> datetime:
    return datetime.fromtimestamp(event.at_ms / 1000, UTC)


def within(events: Sequence[Event], since: datetime, until: datetime) -> list[Event]:
    first, last = (bisect_left(events, moment, key=at) for moment in (since, until))
    return list(events[first:last])


def figures(events: Sequence[Event]) -> dict[str, Any]:
    waits = [event.wait_ms for event in events if event.wait_ms is not None]
    ended = [event for event in events if event.run_ms is not None]
    runs = [event.run_ms or 0 for event in ended]
    wrong = [event for event in ended if event.transition in WRONG]
    lost, ran = sum(event.run_ms or 0 for event in wrong), sum(runs)
    counts = Counter(event.transition for event in events)
    return {
        "enqueued": counts["enqueue"], "started": counts["claim"], "completed": counts["complete"],
        "failed": counts["fail"], "retried": counts["retry"], "stalled": counts["reap"], "cancelled": 0,
        "ended": len(ended), "wrong": len(wrong), "wrong_rate": len(wrong) / len(ended) if ended else None,
        "ran_ms": ran, "wrong_ms": lost, "wrong_share": lost / ran if ran else None,
        "oldest_ms": max(waits, default=None), "longest_ms": max(runs, default=None),
        **{f"wait_p{share}_ms": percentile(waits, share / 100) for share in (50, 90, 99)},
        **{f"run_p{share}_ms": percentile(runs, share / 100) for share in (50, 90, 99)},
    }  # fmt: skip
