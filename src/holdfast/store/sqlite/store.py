"""The SQLite store, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...core.bound import CANCELLED_AT_ONCE, DUE_AT_ONCE, EVENTS_AT_ONCE, EXPIRED_AT_ONCE, MOST_COUNTED, REAPED_AT_ONCE
from ...core.declaration import View
from ...core.job import JobRecord, Progress
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.transition import Reply
from ..contract import (
    KEEP,
    Answer,
    BlockerRecord,
    CancelResult,
    ChainPage,
    ChainRecord,
    Claimed,
    Conflict,
    Declaration,
    DeleteResult,
    Dependants,
    Due,
    EventPage,
    Expired,
    Extended,
    Filter,
    Finding,
    Finished,
    Fired,
    JobCount,
    JobPage,
    Joined,
    KeyInfo,
    KeyOrder,
    Lease,
    Listener,
    NewJob,
    Opened,
    QueueChores,
    QueueInfo,
    Reaped,
    Running,
    ScheduleChange,
    ScheduleRow,
    Session,
    SessionCommand,
    SessionInfo,
    Settlement,
    Store,
    StoreMeasure,
    Turn,
)
from .database import Database
from .doctor import SqliteDoctor
from .inspect import SqliteInspect
from .listen import SqliteListening
from .operate import SqliteOperate
from .produce import SqliteProduce
from .scan.scan import SqliteScan
from .schedule import SqliteSchedules
from .transaction.join import joined
from .transaction.opened import opened
from .url import parse_url
from .work import SqliteWork


class SqliteStore:
    """Jobs in a SQLite file (`sqlite:///path`) or in this process's memory (`memory://`)."""

    atomic = False
    turns_at_once = 1

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None, database: Database | None = None) -> None:
        self.url = url
        self.address = parse_url(url)
        self.database = database or Database(self.address, clock)
        self.shared = self.transactional = self.database.shared
        self._produce = SqliteProduce(self.database)
        self._work = SqliteWork(self.database)
        self._inspect = SqliteInspect(self.database)
        self._operate = SqliteOperate(self.database)
        self._schedules = SqliteSchedules(self.database)
        self._listening = SqliteListening(self.database)
        self._doctor = SqliteDoctor(self.database)

    async def absent(self) -> str | None:
        return await self.database.absent()

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

    def forget(self) -> None:
        """Drop a memory store without a name. For tests, which make many of them."""
        self.database.forget()

    def twin(self) -> Store:
        return self

    async def now_ms(self) -> int:
        return self.database.clock()

    def scan(self) -> SqliteScan:
        """Return a reader of whole tables, with a connection of its own."""
        return SqliteScan(self.address)

    def join(self, connection: Any) -> Joined:
        return joined(self.address, connection, self.database.clock)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        return opened(self.address, self.database.clock)

    # produce

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        return await self._produce.enqueue(queue, jobs, conflict, request)

    async def cancel(
        self, queue: str, id: str, running: Running = "refuse", request: str | None = None
    ) -> CancelResult:
        return await self._produce.cancel(queue, id, running, request)

    async def promote(self, queue: str, id: str) -> Reply:
        return await self._produce.promote(queue, id)

    async def requeue(
        self, which: Filter, *, limit: int = CANCELLED_AT_ONCE, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        return await self._produce.requeue(which, limit=limit, dry_run=dry_run, request=request)

    async def delete(self, queue: str, id: str) -> Reply:
        return await self._produce.delete(queue, id)

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        return await self._produce.set_result_ttl(queue, id, ttl_ms)

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        await self._produce.keep_runs(queue, first, last, ttl_ms)

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        return await self._produce.complete_chain(queue, id, run, result, result_ttl_ms, request)

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> DeleteResult:
        return await self._produce.delete_chain(queue, id, run, cascade)

    # work

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        await self._operate.declare(declarations)

    async def register(self, session: Session) -> None:
        await self._work.register(session)

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        return await self._work.settle_and_claim(session, settlements, queues, room, park, idle, held, only_suspects)

    def given(self, session: Session, room: int) -> list[Claimed]:
        return self._work.given(session, room)

    async def extend(self, session: Session, memory_bytes: int | None = None) -> Extended:
        return await self._work.extend(session, memory_bytes)

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        return await self._work.progress(session, lease, progress, checkpoint)

    async def held(self, session: Session) -> list[Claimed]:
        return await self._work.held(session)

    async def leave(self, session: Session) -> None:
        await self._work.leave(session)

    async def reap(self, queue: str, limit: int = REAPED_AT_ONCE, but: str | None = None) -> Reaped:
        return await self._work.reap(queue, limit, but)

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        return await self._work.chores(queues, but)

    async def expire(self, queue: str, limit: int = EXPIRED_AT_ONCE) -> Expired:
        return await self._work.expire(queue, limit)

    # inspect

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        return await self._inspect.get(queue, id, run)

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        return await self._inspect.look_up(ids, queue)

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        return await self._inspect.jobs(which, limit=limit, cursor=cursor)

    async def pending(self, queues: Sequence[str]) -> bool:
        return await self._inspect.pending(queues)

    async def queues(self) -> list[QueueInfo]:
        return await self._inspect.queues()

    async def sessions(self) -> list[SessionInfo]:
        return await self._inspect.sessions()

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        return await self._inspect.policies(queue)

    async def events(
        self,
        position: str | None = None,
        *,
        queue: str | None = None,
        id: str | None = None,
        limit: int = EVENTS_AT_ONCE,
    ) -> EventPage:
        return await self._inspect.events(position, queue=queue, id=id, limit=limit)

    async def hold(self, reader: str, position: str | None) -> None:
        await self._inspect.hold(reader, position)

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        return await self._inspect.chain(queue, id, run)

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        return await self._inspect.chains(which, limit=limit, cursor=cursor)

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        return await self._inspect.blockers(queue, id, run)

    async def dependants(self, queue: str, id: str, run: int | None = None, *, limit: int = 50) -> Dependants:
        return await self._inspect.dependants(queue, id, run, limit=limit)

    async def layers(self, queue: str) -> View:
        return await self._inspect.layers(queue)

    async def keys(self, queue: str, *, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        return await self._inspect.keys(queue, order=order, limit=limit)

    async def count(self, which: Filter, *, most: int = MOST_COUNTED) -> JobCount:
        return await self._inspect.count(which, most=most)

    async def measure(self) -> StoreMeasure:
        return await self._inspect.measure()

    # operate

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        return await self._operate.configure(queue, set, clear)

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        return await self._operate.adjust(queue, task, set, clear)

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        await self._operate.limit_key(queue, key, concurrency)

    async def command(self, session: str, command: SessionCommand) -> bool:
        return await self._operate.command(session, command)

    # schedule, listen, doctor

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        return await self._schedules.put_schedule(change, jobs, conflict)

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        return await self._schedules.schedules(queue, name)

    async def due(self, queues: Sequence[str], limit: int = DUE_AT_ONCE) -> Due:
        return await self._schedules.due(queues, limit)

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        return await self._listening.listen(on_wake, on_finished)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        return await self._listening.watch(listener, queue, id, run)

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        await self._listening.unwatch(listener, queue, id, run)

    async def doctor(self) -> list[Finding]:
        return await self._doctor.doctor()


__all__ = ["SqliteStore"]
