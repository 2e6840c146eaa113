"""The store: a class that holds the parts, and one line for each method of the contract."""

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
from . import migration
from .connection.caller import PostgresCaller
from .doctor import PostgresDoctor
from .inspect import PostgresInspect
from .listen import PostgresListen
from .operate import PostgresOperate
from .produce import PostgresProduce
from .scan import PostgresScan
from .schedule import PostgresSchedules
from .transaction.join import join
from .transaction.opened import begin
from .url import parse, url_of
from .work import PostgresWork


class PostgresStore:
    """Jobs in a schema of a PostgreSQL database (`postgresql://user@host/database?schema=holdfast`)."""

    transactional = True
    turns_at_once = 2
    atomic = True
    shared = True

    def __init__(
        self, url: Any, *, clock: Callable[[], int] | None = None, caller: PostgresCaller | None = None
    ) -> None:
        """`url` is a URL, a pool of psycopg_pool or an engine of SQLAlchemy, whose database is then used."""
        self.url = url if isinstance(url, str) else url_of(url)
        self._clock = clock
        self.caller = caller or PostgresCaller(parse(self.url), clock)
        self._produce = PostgresProduce(self.caller)
        self._listen = PostgresListen(self.caller)
        self._work = PostgresWork(self.caller, self._listen)
        self._inspect = PostgresInspect(self.caller)
        self._operate = PostgresOperate(self.caller)
        self._schedules = PostgresSchedules(self.caller)
        self._doctor = PostgresDoctor(self.caller)

    # --- the store itself

    async def absent(self) -> str | None:
        return await self.caller.absent()

    async def open(self) -> None:
        await self.caller.open()

    async def close(self) -> None:
        await self.caller.close()

    def twin(self) -> Store:
        return PostgresStore(self.url, clock=self._clock)

    async def now_ms(self) -> int:
        return await self.caller.now_ms()

    def join(self, connection: object) -> Joined:
        return join(self.caller, connection)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        return begin(self.caller)

    def scan(self) -> PostgresScan:
        """Return a reader of whole tables, with a connection of its own."""
        return PostgresScan(self.caller.address)

    def script(self, since: int = 0) -> str:
        """Return the SQL that makes the schema, or brings one with this number up, to be applied by hand."""
        return migration.script(self.caller.address.schema, since)

    async def doctor(self) -> list[Finding]:
        return await self._doctor.doctor()

    # --- producing

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
        return await self._produce.keep_runs(queue, first, last, ttl_ms)

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

    # --- working

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        return await self._operate.declare(declarations)

    async def register(self, session: Session) -> None:
        return await self._work.register(session)

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
        return await self._work.leave(session)

    async def reap(self, queue: str, limit: int = REAPED_AT_ONCE, but: str | None = None) -> Reaped:
        return await self._work.reap(queue, limit, but)

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        return await self._work.chores(queues, but)

    async def expire(self, queue: str, limit: int = EXPIRED_AT_ONCE) -> Expired:
        return await self._work.expire(queue, limit)

    # --- inspecting

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
        return await self._inspect.hold(reader, position)

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

    # --- operating

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        return await self._operate.configure(queue, set, clear)

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        return await self._operate.adjust(queue, task, set, clear)

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        return await self._operate.limit_key(queue, key, concurrency)

    async def command(self, session: str, command: SessionCommand) -> bool:
        return await self._operate.command(session, command)

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        return await self._schedules.put_schedule(change, jobs, conflict)

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        return await self._schedules.schedules(queue, name)

    async def due(self, queues: Sequence[str], limit: int = DUE_AT_ONCE) -> Due:
        return await self._schedules.due(queues, limit)

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        return await self._listen.listen(on_wake, on_finished)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        return await self._listen.watch(listener, queue, id, run)

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        return await self._listen.unwatch(listener, queue, id, run)
