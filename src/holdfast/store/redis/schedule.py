"""Schedules, as rows that only their owner reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...core.action import signed
from ...core.transition import Reply
from ..contract import KEEP, Conflict, Due, Fired, NewJob, ScheduleChange, ScheduleRow
from .arguments.enqueue import answers_to, conflict_argument, job_arguments
from .arguments.entry import Flat, in_groups
from .arguments.inspect import DueCall, DueReply, ScheduleFields, SchedulesCall
from .arguments.produce import EnqueueReply, PutScheduleCall
from .caller import RedisCaller
from .connection.durability import Durability
from .outbox import RedisOutbox


class RedisSchedules:
    """The schedules of one namespace."""

    def __init__(self, caller: RedisCaller, outbox: RedisOutbox, durability: Durability) -> None:
        self._caller = caller
        self._outbox = outbox
        self._durability = durability

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        """Write a schedule, if it still has the expected revision, and take in the jobs of its ticks."""
        queue = change.queue
        await self._caller.know(queue)
        key = self._caller.keys.declared(queue)
        mark = await self._durability.mark(key) if self._durability.wanted else None
        call = PutScheduleCall(
            queue=queue,
            name=change.name,
            expected=change.expected or "",
            revision=change.revision,
            next_at=change.next_at_ms,
            body=change.body,
            history=self._caller.server.address.history,
            conflict=conflict_argument(conflict),
            action=signed(change.action),
            count=len(jobs),
        )
        found = await self._caller.call(queue, call, job_arguments(jobs))
        enqueued = None if found.enqueued is None else EnqueueReply._make(found.enqueued)
        if enqueued is not None and enqueued.status == b"posted":
            await self._outbox.try_to_deliver(queue)
        if mark is not None:
            await self._durability.wait(key, mark)
        answers = [] if enqueued is None else answers_to(jobs, enqueued)
        return Fired(reply=Reply(found.reply.decode()), answers=answers)

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        """Return the schedules of a queue, or of all; or those with a name."""
        queues = [queue] if queue is not None else await self._caller.names()
        found = await asyncio.gather(*(self._caller.read(each, SchedulesCall(name=name)) for each in queues))
        return [row for each, flat in zip(queues, found, strict=True) for row in _rows(each, flat)]

    async def due(self, queues: Sequence[str], limit: int) -> Due:
        """Return the schedules that are due, and when the next is."""
        replies = await asyncio.gather(*(self._caller.read(queue, DueCall(limit=limit)) for queue in queues))
        return _due(queues, replies, limit)


def _rows(queue: str, flat: Flat) -> list[ScheduleRow]:
    """Return the schedules of one queue, by name."""
    found = []
    for name, stored, next_at in in_groups(flat, ScheduleFields):
        revision, _, body = stored.partition(b":")
        found.append(
            ScheduleRow(
                queue=queue,
                name=name.decode("utf-8", "replace"),
                revision=revision.decode("utf-8", "replace"),
                next_at_ms=None if next_at < 0 else next_at,
                body=body,
            )
        )
    return sorted(found, key=lambda row: row.name)


def _due(queues: Sequence[str], replies: Sequence[DueReply], limit: int) -> Due:
    """Return what several queues answered as one."""
    found = [row for queue, reply in zip(queues, replies, strict=True) for row in _rows(queue, reply.schedules)]
    found.sort(key=lambda row: row.next_at_ms or 0)
    later = [reply.next_at for reply in replies if reply.next_at is not None]
    now = max((reply.now for reply in replies), default=0)
    return Due(now_ms=now, rows=found[:limit], next_at_ms=min(later, default=None))
