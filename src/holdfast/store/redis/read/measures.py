"""What operators look at: keys, what grows and is late, and who waits for a chain."""

from __future__ import annotations

from typing import Any

from ....core.chain import ChainRef
from ...contract import Dependants, KeyInfo, KeyOrder, LogMeasure, QueueInfo, QueueMeasure, StoreMeasure
from ...lanes import Lane, key_info, ranked
from ...rows import readable_settings
from ..arguments.entry import in_groups
from ..arguments.inspect import DependantFields, DependantsCall, LaneFields, LanesCall, MeasureCall, MeasureReply
from ..caller import RedisCaller, rid
from ..keys import long
from .records import RecordReader


class Measures:
    """Measures one namespace."""

    def __init__(self, caller: RedisCaller, records: RecordReader) -> None:
        self._caller = caller
        self._records = records

    async def keys(self, queue: str, order: KeyOrder, limit: int) -> list[KeyInfo]:
        """Return keys of a queue in an order."""
        every = await self._caller.read(queue, LanesCall(order=order))
        if every is None:
            return []
        chosen = [
            lane.key for lane in ranked((_lane(each) for each in in_groups(every.lanes, LaneFields)), order, limit)
        ]
        if not chosen:
            return []
        found = await self._caller.read(queue, LanesCall(order=order), chosen)
        if found is None:
            return []
        settings = readable_settings(queue, found.settings)
        return [key_info(_lane(each), settings, found.now) for each in in_groups(found.lanes, LaneFields)]

    async def measure(self, queues: list[QueueInfo]) -> StoreMeasure:
        """Return what grows, waits and is late."""
        found = {info.name: await self._caller.read(info.name, MeasureCall()) for info in queues}
        readers: dict[str, int] = {}
        for reply in found.values():
            for name, first in zip(reply.readers[::2], reply.readers[1::2], strict=True):
                behind = 0 if reply.newest is None else max(0, reply.newest - first + 1)
                readers[name.decode()] = readers.get(name.decode(), 0) + behind
        log = LogMeasure(
            events=sum(reply.events for reply in found.values()),
            bytes=sum([await self._bytes(info.name) for info in queues]),
            readers=readers,
        )
        measured = [_measured(info, found[info.name]) for info in queues]
        return StoreMeasure(now_ms=await self._caller.now_ms(), queues=measured, log=log)

    async def _bytes(self, queue: str) -> int:
        key = self._caller.keys.of(queue, "events")
        command: list[Any] = ["MEMORY", "USAGE", key]
        return int(await self._caller.server.ask(command, key) or 0)

    async def dependants(self, queue: str, id: str, run: int | None, limit: int) -> Dependants:
        """Return the jobs that wait for the chain of a job."""
        job = await self._records.get(queue, id, run)
        if job is None:
            return Dependants(jobs=[], count=0)
        first = job.chain or ChainRef(job.queue, job.id, job.run)
        reply = await self._caller.read(first.queue, DependantsCall(rid=rid(first.run), limit=limit))
        found = [
            ChainRef(name.decode(), long(stored), number)
            for name, number, stored in in_groups(reply.dependants, DependantFields)
        ]
        jobs = sorted(dict.fromkeys(found), key=lambda ref: ref.run)
        return Dependants(jobs=jobs, count=reply.total if reply.total > limit else len(jobs))


def _lane(fields: tuple[Any, ...]) -> Lane:
    lane = LaneFields._make(fields)
    return Lane(
        key=lane.key.decode("utf-8", "replace"),
        waiting=lane.waiting,
        active=lane.active,
        own_limit=lane.own_limit,
        ready_at_ms=lane.ready_at,
        cooling=bool(lane.cooling),
        tokens=None if lane.tokens is None else float(lane.tokens),
        tokens_at_ms=lane.tokens_at,
        oldest_waiting_ms=lane.oldest,
    )


def _measured(info: QueueInfo, reply: MeasureReply) -> QueueMeasure:
    return QueueMeasure(
        info=info,
        keys_at_limit=reply.keys_at_limit,
        scheduled_overdue_ms=0 if reply.due is None else max(0, reply.now - reply.due),
    )
