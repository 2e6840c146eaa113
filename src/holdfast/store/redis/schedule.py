"""Schedules, as the functions in the server take and give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..contract import Due, ScheduleChange, ScheduleRow


def arguments(change: ScheduleChange) -> tuple[Any, ...]:
    """Return name, expected and new revision, next tick and body."""
    next_at = "" if change.next_at_ms is None else change.next_at_ms
    return change.name, change.expected or "", change.revision, next_at, change.body or b""


def rows(queue: str, flat: Sequence[Any]) -> list[ScheduleRow]:
    """Return the schedules of one queue, by name."""
    found = []
    for name, stored, next_at in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        revision, _, body = stored.partition(b":")
        next_at_ms = None if next_at < 0 else next_at
        found.append(
            ScheduleRow(
                queue=queue, name=name.decode("utf-8", "replace"), revision=revision.decode("utf-8", "replace"),
                next_at_ms=next_at_ms, body=body,
            )
        )  # fmt: skip
    return sorted(found, key=lambda row: row.name)


def due(queues: Sequence[str], replies: Sequence[Sequence[Any]], limit: int) -> Due:
    """Return what several queues answered as one."""
    found = [row for queue, reply in zip(queues, replies, strict=True) for row in rows(queue, reply[2:])]
    found.sort(key=lambda row: row.next_at_ms or 0)
    later = [reply[1] for reply in replies if reply[1] >= 0]
    now = max((reply[0] for reply in replies), default=0)
    return Due(now_ms=now, rows=found[:limit], next_at_ms=min(later, default=None))
