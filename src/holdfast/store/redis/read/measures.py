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
from ..record.event import event_or_none
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
        readers, lag_ms = await self._readers(found)
        log = LogMeasure(
            events=sum(reply.events for reply in found.values()),
            bytes=sum([await self._bytes(info.name) for info in queues]),
            readers=readers,
            lag_ms=lag_ms,
        )
        measured = [_measured(info, found[info.name]) for info in queues]
        return StoreMeasure(now_ms=await self._caller.now_ms(), queues=measured, log=log)

    async def _readers(self, found: dict[str, MeasureReply]) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many events each reader has still to read, and how long ago the first of them came."""
        behind, lag_ms = dict[str, int](), dict[str, int]()
        for queue, reply in found.items():
            for stored, first in zip(reply.readers[::2], reply.readers[1::2], strict=True):
                name = stored.decode()
                unread = 0 if reply.newest is None else max(0, reply.newest - first + 1)
                behind[name] = behind.get(name, 0) + unread
                since = await self._came(queue, first) if unread else None
                lag_ms[name] = max(lag_ms.get(name, 0), 0 if since is None else reply.now - since)
        return behind, lag_ms

    async def _came(self, queue: str, first: int) -> int | None:
        """Return when the first event of a queue came from this number on; `None` where it cannot be read."""
        declared, events = self._caller.keys.declared(queue), self._caller.keys.of(queue, "events")
        epoch = (await self._caller.server.ask(["HGET", declared, "epoch"], declared)).decode()
        entry = await self._caller.server.ask(["XRANGE", events, f"{epoch}-{first}", "+", "COUNT", 1], events)
        flat = entry[0][1] if entry else []
        found = event_or_none(queue, dict(zip(flat[::2], flat[1::2], strict=True)))
        return None if found is None else found.at_ms

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
