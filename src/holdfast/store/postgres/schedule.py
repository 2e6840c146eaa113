"""Schedules: changed only if they are as they were read, and the jobs of their ticks in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.action import signed
from ...core.bound import DUE_AT_ONCE
from ...core.transition import Reply
from ..contract import KEEP, Conflict, Due, Fired, NewJob, ScheduleChange, ScheduleRow
from .call import arguments, replies
from .call.array import blob, texts
from .connection.caller import PostgresCaller, Rows
from .connection.connect import Connection


class PostgresSchedules:
    """The schedules of a store."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        """Change a schedule and enqueue its jobs in one step, or do nothing."""
        caller = self._caller
        values = {
            "clock": caller.now(), "queue": change.queue, "name": change.name, "expected": change.expected,
            "revision": change.revision, "next_at": change.next_at_ms, "body": blob(change.body),
            "action": signed(change.action),
        }  # fmt: skip
        put, enqueue = caller.statement("put_schedule"), caller.statement("enqueue")
        request = f"{change.revision}/jobs"

        async def work(connection: Connection, again: bool) -> tuple[str, Rows]:
            async with connection.transaction(), connection.cursor(binary=True) as cursor:
                await cursor.execute(put, values)
                ((word,),) = await cursor.fetchall()
                if word != Reply.OK or not jobs:
                    return word, []
                await cursor.execute(enqueue, arguments.enqueue(caller.now(), change.queue, jobs, conflict, request))
                return word, await cursor.fetchall()

        word, rows = await caller.run(work, repeatable=True)
        return Fired(reply=Reply(word), answers=[replies.answer(row) for row in rows])

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        """Return every schedule, or those of one queue or name."""
        return [ScheduleRow(**row) for row in await self._caller.query("schedules", queue=queue, schedule=name)]

    async def due(self, queues: Sequence[str], limit: int = DUE_AT_ONCE) -> Due:
        """Return schedules of these queues whose tick has come. The first row of the reply always tells the time."""
        rows = await self._caller.call("due", queues=texts(queues), limit=limit)
        names = ScheduleRow.__struct_fields__
        found = [ScheduleRow(**{name: row[name] for name in names}) for row in rows if row["name"] is not None]
        return Due(now_ms=rows[0]["now"], rows=found, next_at_ms=rows[0]["later"])
