"""The store as everybody else sees it: each method is one call of a function in the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.job import JobRecord, run_number
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.transition import Reply
from ..contract import (
    KEEP,
    BlockerRecord,
    ChainPage,
    ChainRecord,
    Conflict,
    Due,
    EventPage,
    Filter,
    Finding,
    Finished,
    Fired,
    JobPage,
    Listener,
    NewJob,
    QueueInfo,
    ScheduleChange,
    ScheduleRow,
    SessionInfo,
    Store,
)
from ..row import set_aside
from . import doctor, schedule, steer
from .keys import short
from .order import answers_to, asked, rule
from .produce import Producing
from .scan import RedisScan
from .work import Working


class RedisStore(Producing, Working):
    """Jobs in Redis or Valkey: `redis://`, `rediss://`, `valkey://`, `redis+cluster://`, `redis+sentinel://`.

    Instead of a URL it takes a client or pool of redis-py, whose settings its own connections then have.
    """

    transactional = False
    turns_at_once = 4
    shared = True

    def twin(self) -> Store:
        return RedisStore(self._where, clock=self._clock, namespace=self.place.namespace)

    def scan(self) -> RedisScan:
        """Return a reader of whole tables, with a connection of its own."""
        return RedisScan(self.place)

    # --- looking

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        return await self._reader.get(queue, id, run, self._now())

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        return await self._reader.jobs(which, limit, cursor, self._now())

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        return await self._chains.get(queue, id, run)

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        return await self._chains.page(which, limit, cursor)

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        return await self._chains.blockers(queue, run)

    async def pending(self, queues: Sequence[str]) -> bool:
        return await self._reader.pending(list(queues), self._now())

    async def queues(self) -> list[QueueInfo]:
        return await self._reader.queues(self._now())

    async def sessions(self) -> list[SessionInfo]:
        return await self._reader.sessions(self._now())

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        return (await steer.read(self._server, self._keys, queue)).policies()

    async def events(
        self, position: str | None = None, *, queue: str | None = None, id: str | None = None, limit: int = 1000
    ) -> EventPage:
        return await self._reader.events(position, queue, id, limit)

    async def hold(self, reader: str, position: str | None) -> None:
        for name, seq in await self._reader.unread(position):
            await self._server.call("hold", [self._keys.declared(name)], self._now(), name, reader, seq)

    # --- steering

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        await self._know(queue)
        return await steer.change(self._server, self._keys, queue, self._now(), steer.configure(queue, set, clear))

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        await self._know(queue)
        return await steer.change(self._server, self._keys, queue, self._now(), steer.adjust(task, set, clear))

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        await self._know(queue)
        await steer.change(self._server, self._keys, queue, self._now(), steer.limit_key(key, concurrency))

    # --- schedules

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        await self._know(change.queue)
        key = self._keys.declared(change.queue)
        mark = await self._durability.mark(key) if self._durability.wanted else None
        word, *answers = await self._server.call(
            "put_schedule", [key], self._now(), change.queue,
            *schedule.arguments(change), self.place.history, rule(conflict), len(jobs), *asked(jobs),
        )  # fmt: skip
        if answers and answers[0][0] == b"posted":
            await self._deliver_all([change.queue])
        if mark is not None:
            await self._durability.wait(key, mark)
        return Fired(reply=Reply(word.decode()), answers=answers_to(jobs, answers[0]) if answers else [])

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        queues = [queue] if queue is not None else await self._reader.names()
        looks = (self._server.look("schedules", [self._keys.declared(each)], name or "") for each in queues)
        found = zip(queues, await asyncio.gather(*looks), strict=True)
        return [row for each, flat in found for row in schedule.rows(each, flat)]

    async def due(self, queues: Sequence[str], limit: int = 100) -> Due:
        looks = (self._server.look("due", [self._keys.declared(queue)], self._now(), limit) for queue in queues)
        return schedule.due(queues, await asyncio.gather(*looks), limit)

    # --- hearing

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        return await self._ear.listen(on_wake, on_finished)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        key = self._keys.declared(queue)
        args = (short(id), run_number(run), listener.address)
        return bool(await self._server.call("watch", [key], self._now(), *args) == b"ok")

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        await self._server.call("unwatch", [self._keys.declared(queue)], short(id), run, listener.address)

    async def doctor(self) -> list[Finding]:
        corrupt = [each for name in await self._reader.names() for each in await self._reader.corrupt(name)]
        return [*await doctor.findings(self._server), set_aside(corrupt), await self._reader.suspects()]


__all__ = ["RedisStore"]
