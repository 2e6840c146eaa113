"""Schedules: a change and the jobs of its ticks are one step, and happen only if nobody was quicker."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.transition import Reply
from ..contract import Conflict, Due, Fired, NewJob, ScheduleChange, ScheduleRow
from .enqueue import enqueue
from .tx import Tx


def put(tx: Tx, change: ScheduleChange, jobs: Sequence[NewJob], conflict: Conflict) -> Fired:
    """The schedule is as the change says and the jobs are taken in, or the word says why not."""
    queue, name = change.queue, change.name
    revision = tx.value("schedule", "revision", queue=queue, schedule=name)
    if revision != change.expected:
        return Fired(reply=Reply.MISSING if revision is None else Reply.STALE)
    tx.queue(queue)
    if change.body is None:
        tx.run("schedule", "remove", queue=queue, schedule=name)
    else:
        tx.run(
            "schedule", "put", queue=queue, schedule=name, revision=change.revision, next_at=change.next_at_ms,
            body=change.body,
        )  # fmt: skip
    return Fired(reply=Reply.OK, answers=enqueue(tx, queue, jobs, conflict) if jobs else [])


def found(tx: Tx, queue: str | None, name: str | None) -> list[ScheduleRow]:
    """Return every schedule, or those of one queue or name."""
    statement = "found" if queue is None or name is None else "get"
    return [ScheduleRow(**row) for row in tx.rows("schedule", statement, queue=queue, schedule=name)]


def due(tx: Tx, queues: Sequence[str], limit: int) -> Due:
    """Return the schedules of these queues whose tick has come, and when the next one's does."""
    rows = [
        ScheduleRow(**row)
        for queue in queues
        for row in tx.rows("schedule", "due", queue=queue, now=tx.now, limit=limit)
    ]
    rows.sort(key=lambda row: row.next_at_ms or 0)
    nexts = [tx.value("schedule", "next", queue=queue, now=tx.now) for queue in queues]
    return Due(now_ms=tx.now, rows=rows[:limit], next_at_ms=min((at for at in nexts if at is not None), default=None))
