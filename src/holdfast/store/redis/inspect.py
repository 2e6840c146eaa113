"""Reading: jobs, chains, queues, workers and the event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.bound import MOST_COUNTED
from ...core.declaration import View
from ...core.job import JobRecord
from ...core.policy import Policy
from ...core.state import State
from ..contract import (
    BlockerRecord,
    ChainPage,
    ChainRecord,
    Dependants,
    EventPage,
    Filter,
    JobCount,
    JobPage,
    KeyInfo,
    KeyOrder,
    QueueInfo,
    SessionInfo,
    StoreMeasure,
)
from ..pages import placed_state
from ..rows import known_command, known_session, readable_settings
from .arguments.inspect import KeepForReaderCall, PendingCall, QueueCall, SessionFields, SessionsCall
from .caller import RedisCaller
from .operate import RedisOperate
from .read.chains import ChainReader
from .read.log import RedisLogReader
from .read.measures import Measures
from .read.placed import Placed
from .read.records import RecordReader
from .read.search import Search
from .record.view import decoded


class RedisInspect:
    """Reads one namespace."""

    def __init__(self, caller: RedisCaller, operate: RedisOperate) -> None:
        self._caller = caller
        self._operate = operate
        self.records = RecordReader(caller)
        self.search = Search(caller)
        self._placed = Placed(caller, self.search)
        self._chains = ChainReader(caller, self.records, self.search)
        self._log = RedisLogReader(caller)
        self._measures = Measures(caller, self.records)

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return the run that answers for an id, or a given run of it."""
        return await self.records.get(queue, id, run)

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        """Return the run that answers for each of these ids that is there."""
        return await self.records.look_up(ids, queue)

    async def jobs(self, which: Filter, limit: int, cursor: str | None) -> JobPage:
        """Return jobs that match, newest first."""
        state = placed_state(which)
        page = await self._placed.page(which, state, limit, cursor) if state else None
        return page or await self.search.page(which, limit, cursor)

    async def pending(self, queues: Sequence[str]) -> bool:
        """True while a job waits to be claimed, or, once started, for another attempt."""
        for queue in queues:
            if await self._caller.read(queue, PendingCall()):
                return True
        return False

    async def queues(self) -> list[QueueInfo]:
        """Return every queue with its counts and settings."""
        found = [await self._queue(name) for name in await self._caller.names()]
        return [info for info in found if info is not None]

    async def _queue(self, name: str) -> QueueInfo | None:
        found = await self._caller.read(name, QueueCall())
        if found is None:
            return None
        return QueueInfo(
            name=name,
            counts={state: getattr(found, state) for state in State},
            settings=readable_settings(name, found.settings),
            overrides=decoded(found.operator, dict[str, Any]) or {},
            key_overrides={
                key.decode("utf-8", "replace"): int(each)
                for key, each in zip(found.limits[::2], found.limits[1::2], strict=True)
                if each.isdigit()
            },
            workers=found.workers,
            oldest_waiting_ms=found.oldest,
        )

    async def sessions(self) -> list[SessionInfo]:
        """Return every worker, each once, whatever queues it serves."""
        found: dict[bytes, SessionFields] = {}
        now = 0
        for name in await self._caller.names():
            reply = await self._caller.read(name, SessionsCall())
            now = reply.now
            for row in map(SessionFields._make, reply.sessions):
                found[row.id] = _joined(found.get(row.id, row._replace(active=0)), row)
        return sorted((_session(row, now) for row in found.values()), key=lambda info: info.started_at_ms)

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        """Return the policy in force of every task."""
        return await self._operate.policies(queue)

    async def events(self, position: str | None, queue: str | None, id: str | None, limit: int) -> EventPage:
        """Return events after a position: of one queue in commit order, of several merged by time."""
        return await self._log.events(position, queue, id, limit)

    async def hold(self, reader: str, position: str | None) -> None:
        """Keep what a named reader has still to read of the log; without a position, keep nothing for it any more."""
        for name, sequence in await self._log.unread(position):
            await self._caller.call(name, KeepForReaderCall(queue=name, reader=reader, sequence=sequence))

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        """Return the chain of a job as it stands."""
        return await self._chains.get(queue, id, run)

    async def chains(self, which: Filter, limit: int, cursor: str | None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        return await self._chains.page(which, limit, cursor)

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for, in order."""
        return await self._chains.blockers(queue, run)

    async def dependants(self, queue: str, id: str, run: int | None = None, *, limit: int = 50) -> Dependants:
        """Return the jobs that wait for the chain of a job."""
        return await self._measures.dependants(queue, id, run, limit)

    async def layers(self, queue: str) -> View:
        """Return what workers declared of a queue and its tasks, and what operators set above it."""
        return await self._operate.layers(queue)

    async def keys(self, queue: str, *, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        """Return keys of a queue in an order, with their limits."""
        return await self._measures.keys(queue, order, limit)

    async def count(self, which: Filter, *, most: int = MOST_COUNTED) -> JobCount:
        """Return how many jobs match, within bounds."""
        return await self.search.count(which, most)

    async def measure(self) -> StoreMeasure:
        """Return what grows, waits and is late in the store."""
        return await self._measures.measure(await self.queues())


def _joined(one: SessionFields, other: SessionFields) -> SessionFields:
    """Return a session from what two of its queues say of it."""
    return one._replace(
        info=max(one.info, other.info, key=len),  # of a session with many queues one knows all of it
        started_at=min(one.started_at, other.started_at),
        heard_at=max(one.heard_at, other.heard_at),
        expires_at=min(one.expires_at, other.expires_at),
        dead=one.dead or other.dead,
        active=one.active + other.active,
        memory=max(one.memory or 0, other.memory or 0) or None,
        command=max(one.command or b"", other.command or b"") or None,
    )


def _session(row: SessionFields, now: int) -> SessionInfo:
    return SessionInfo(
        session=known_session(row.id.decode("utf-8", "replace"), row.info),
        started_at_ms=row.started_at,
        heard_at_ms=row.heard_at,
        expires_at_ms=row.expires_at,
        active=row.active,
        alive=not row.dead and row.expires_at > now,
        memory_bytes=row.memory,
        command=known_command((row.command or b"").decode("utf-8", "replace")),
    )
