"""Schedules: a change and the jobs of its ticks are one step, and happen only if the schedule is as it was read."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.bound import DUE_AT_ONCE
from ...core.transition import Reply
from ..contract import KEEP, Conflict, Due, Fired, NewJob, ScheduleChange, ScheduleRow
from .connection.at_once import SMALL
from .database import Database
from .transition.enqueue import enqueue
from .tx import Tx, acting


class SqliteSchedules:
    """Change and read schedules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        """Change a schedule and enqueue the jobs of its ticks, or do neither and say why."""
        return await self._database.write_once(
            change.revision, Fired, acting(_put), change, jobs, conflict, small=len(jobs) <= SMALL
        )

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        """Return every schedule, or those of one queue or name."""
        return await self._database.read(_schedules, queue, name)

    async def due(self, queues: Sequence[str], limit: int = DUE_AT_ONCE) -> Due:
        """Return the schedules of these queues whose tick has come, and when the next one's does."""
        return await self._database.read(_due, queues, limit, small=True)


def _put(tx: Tx, change: ScheduleChange, jobs: Sequence[NewJob], conflict: Conflict) -> Fired:
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
    if change.action is not None:
        tx.append_action(queue, change.action)
    return Fired(reply=Reply.OK, answers=enqueue(tx, queue, jobs, conflict) if jobs else [])


def _schedules(tx: Tx, queue: str | None, name: str | None) -> list[ScheduleRow]:
    statement = "found" if queue is None or name is None else "get"
    return [ScheduleRow(**row) for row in tx.rows("schedule", statement, queue=queue, schedule=name)]


def _due(tx: Tx, queues: Sequence[str], limit: int) -> Due:
    rows = [
        ScheduleRow(**row)
        for queue in queues
        for row in tx.rows("schedule", "due", queue=queue, now=tx.now, limit=limit)
    ]
    rows.sort(key=lambda row: row.next_at_ms or 0)
    nexts = [tx.value("schedule", "next", queue=queue, now=tx.now) for queue in queues]
    return Due(now_ms=tx.now, rows=rows[:limit], next_at_ms=min((at for at in nexts if at is not None), default=None))
