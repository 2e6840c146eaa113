"""What the lake should say, worked out from the events in plain Python, with nothing of the lake's own code."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast import Event

MINUTE = 60_000
FINISHED = ("completed", "failed", "cancelled")
OUTCOME = {
    "complete": "completed", "retry": "retried", "fail": "failed", "snooze": "snoozed", "release": "released",
    "reap": "stalled", "cancel": "cancelled",
}  # fmt: skip
Rows = dict[tuple[Any, ...], dict[str, Any]]


def time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def percentile(values: Iterable[int], share: float) -> float | None:
    """Return the value below which a share of all lies, between the two nearest in proportion."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's index of fairness."""
    if not values:
        return None
    squares = sum(value * value for value in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


def jobs(events: Iterable[Event]) -> Rows:
    """Return one row for each run."""
    rows: Rows = {}
    for event in events:
        key = (event.queue, event.id, event.run)
        gone = event.state is None
        row = rows.get(key)
        if row is None:
            assert not gone
            row = rows[key] = dict.fromkeys(
                ("enqueued_at", "first_started_at", "started_at", "finished_at", "worker", "tags")
            )
            row |= {"waited_ms": 0, "ran_ms": 0, "error_type": None, "error_signature": None}
        if gone:
            if row["finished_at"] is None:
                row |= {"state": "deleted", "finished_at": time(event.at_ms)}
            continue
        row |= {"state": str(event.state), "cause": event.cause, "task": event.task, "key": event.key}
        row |= {"priority": event.priority, "run_at": time(event.run_at_ms), "attempts": event.attempt}
        counters = event.counters
        row |= {name: getattr(counters, name) for name in ("failures", "stalls", "timeouts", "releases")}
        if event.transition in ("enqueue", "requeue") or (event.transition, event.cause) == ("cancel", "successor"):
            row["enqueued_at"] = time(event.at_ms)
        open_update = event.transition == "update" and event.state in ("waiting", "scheduled", "blocked")
        if event.transition in ("enqueue", "requeue") or open_update:
            row["tags"] = list(event.tags)
        if event.transition == "claim":
            row["first_started_at"] = row["first_started_at"] or time(event.at_ms)
            row["started_at"] = time(event.at_ms)
        if event.state in FINISHED:
            row["finished_at"] = time(event.at_ms)
        row["waited_ms"] += event.wait_ms or 0
        row["ran_ms"] += event.run_ms or 0
        row["worker"] = event.worker or row["worker"]
        if event.error_type is not None:
            row |= {"error_type": event.error_type, "error_signature": event.error_signature}
    return rows


def attempts(events: Iterable[Event]) -> Rows:
    """Return one row for each attempt."""
    rows: Rows = {}
    for event in events:
        key = (event.queue, event.id, event.run, event.attempt)
        if event.transition == "claim":
            rows[key] = {
                "task": event.task, "key": event.key, "priority": event.priority,
                "worker": event.worker, "started_at": time(event.at_ms), "wait_ms": event.wait_ms, "ended_at": None,
                "run_ms": None, "outcome": None, "cause": None, "error_type": None, "error_signature": None,
            }  # fmt: skip
        elif key in rows and rows[key]["ended_at"] is None:
            if event.run_ms is not None:
                rows[key] |= {"ended_at": time(event.at_ms), "run_ms": event.run_ms, "cause": event.cause}
                rows[key] |= {"outcome": OUTCOME[event.transition], "error_type": event.error_type}
                rows[key] |= {"error_signature": event.error_signature}
            elif event.state is None or event.state in FINISHED:
                started = rows[key]["started_at"]
                ran = round((event.at_ms / 1000 - started.timestamp()) * 1000)
                rows[key] |= {"ended_at": time(event.at_ms), "run_ms": ran, "outcome": "dropped"}
    return rows


def by_minute(events: Iterable[Event]) -> dict[tuple[str, datetime], list[Event]]:
    """Return the events of each queue and minute."""
    found: dict[tuple[str, datetime], list[Event]] = defaultdict(list)
    for event in events:
        at = time(event.at_ms // MINUTE * MINUTE)
        assert at is not None
        found[event.queue, at].append(event)
    return found


def minutes(events: Iterable[Event]) -> Rows:
    """Return one row for each queue and minute."""
    return {key: _minute(told) for key, told in by_minute(events).items()}


def _minute(told: list[Event]) -> dict[str, Any]:
    def count(*names: str) -> int:
        return sum(event.transition in names for event in told)

    ended = [event for event in told if event.run_ms is not None]
    waits = [event.wait_ms for event in told if event.wait_ms is not None]
    runs = [event.run_ms for event in ended if event.run_ms is not None]
    stalled = sum(event.transition == "reap" or (event.transition, event.cause) == ("fail", "stall") for event in told)
    raised = ("failure", "timeout", "permanent")
    wrong = sum(event.transition in ("retry", "fail") and event.cause in raised for event in ended)
    keyed: dict[str, list[int]] = defaultdict(list)
    for event in told:
        if event.transition == "claim" and event.key is not None:
            keyed[event.key].append(event.wait_ms or 0)
    return {
        "enqueued": count("enqueue", "requeue"),
        "started": count("claim"),
        "ended": len(ended),
        "completed": count("complete"),
        "failed": count("fail"),
        "cancelled": count("cancel"),
        "retried": count("retry"),
        "timed_out": sum(event.transition in ("retry", "fail") and event.cause == "timeout" for event in told),
        "stalled": stalled,
        "released": count("release"),
        "snoozed": count("snooze"),
        **{f"wait_p{share}_ms": percentile(waits, share / 100) for share in (50, 90, 99)},
        "oldest_ms": max(waits, default=None),
        **{f"run_p{share}_ms": percentile(runs, share / 100) for share in (50, 90, 99)},
        "longest_ms": max(runs, default=None),
        "failure_rate": wrong / len(ended) if ended else None,
        "retry_rate": count("retry") / len(ended) if ended else None,
        "stall_rate": stalled / len(ended) if ended else None,
        "keys": len(keyed),
        "fairness": jain([len(waits) for waits in keyed.values()]),
        "wait_fairness": jain([sum(waits) / len(waits) for waits in keyed.values()]),
    }


def tenants(events: Iterable[Event]) -> Rows:
    """Return one row for each queue, minute and concurrency key of which something began or ended."""
    rows: Rows = {}
    for (queue, minute), told in by_minute(events).items():
        for key in {event.key for event in told if event.key is not None}:
            mine = [event for event in told if event.key == key]
            waits = [event.wait_ms for event in mine if event.wait_ms is not None]
            runs = [event.run_ms for event in mine if event.run_ms is not None]
            over = [event.transition for event in mine if event.transition in ("complete", "fail")]
            if waits or runs or over:
                rows[queue, minute, key] = {
                    "started": sum(event.transition == "claim" for event in mine),
                    "ended": len(runs),
                    "completed": over.count("complete"),
                    "failed": over.count("fail"),
                    "wait_mean_ms": sum(waits) / len(waits) if waits else None,
                    "wait_max_ms": max(waits, default=None),
                    "ran_ms": sum(runs),
                }
    return rows


def errors(events: Iterable[Event]) -> Rows:
    """Return one row for each queue, minute and signature."""
    rows: Rows = {}
    for (queue, minute), told in by_minute(events).items():
        for event in told:
            if event.error_signature is not None:
                row = rows.setdefault((queue, minute, event.error_signature), {"count": 0})
                row["count"] += 1
                row |= {"error_type": event.error_type, "task": event.task, "example": event.id}
    return rows


def workers(events: Iterable[Event]) -> Rows:
    """Return one row for each worker and minute: millisecond by millisecond would be the same."""
    rows: Rows = {}
    for event in events:
        if event.run_ms is None or event.worker is None:
            continue
        began = event.at_ms - event.run_ms
        for number in range(began // MINUTE, event.at_ms // MINUTE + 1):
            row = rows.setdefault((event.worker, time(number * MINUTE)), {"ended": 0, "busy_ms": 0})
            row["ended"] += number == event.at_ms // MINUTE
            row["busy_ms"] += min(event.at_ms, (number + 1) * MINUTE) - max(began, number * MINUTE)
    return rows
