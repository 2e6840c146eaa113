"""The store, composed of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...core.bound import CANCELLED_AT_ONCE, DUE_AT_ONCE, EVENTS_AT_ONCE, EXPIRED_AT_ONCE, MOST_COUNTED, REAPED_AT_ONCE
from ...core.declaration import View
from ...core.job import JobRecord, Progress
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.transition import Reply
from ..any_loop_lock import AnyLoopLock
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
    KeyInfo,
    KeyOrder,
    Lease,
    Listener,
    NewJob,
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
from ..namespace import check_namespace
from .caller import RedisCaller
from .connection.durability import Durability
from .connection.existing import address_of
from .connection.mistyped import MistypedKeys
from .connection.server import Server
from .doctor import RedisDoctor
from .inspect import RedisInspect
from .keys import Keys
from .listen import RedisListener
from .operate import RedisOperate
from .outbox import RedisOutbox
from .produce import RedisProduce
from .scan.scan import RedisScan
from .schedule import RedisSchedules
from .url import parse_url
from .work import RedisWork


class RedisStore:
    """Jobs in Redis or Valkey: `redis://`, `rediss://`, `valkey://`, `redis+cluster://`, `redis+sentinel://`.

    Instead of a URL it takes a client or pool of redis-py or valkey-py, whose settings its own connections then have.
    """

    transactional = False
    turns_at_once = 4
    shared = True

    def __init__(self, where: Any, *, clock: Callable[[], int] | None = None, namespace: str | None = None) -> None:
        self._where = where
        self.address = parse_url(where) if isinstance(where, str) else address_of(where)
        if namespace is not None:
            self.address = msgspec.structs.replace(self.address, namespace=check_namespace(namespace))
        self.url = where if isinstance(where, str) and namespace is None else self.address.url
        self._clock = clock
        self._opened = 0
        self._opening = AnyLoopLock()
        self._compose()

    def _compose(self) -> None:
        """Make all parts anew: what they remember is of one time that the store is open."""
        self.server = Server(self.address)
        self.caller = RedisCaller(self.server, Keys(self.address.namespace), self._clock)
        self._durability = Durability(self.server)
        self.listener = RedisListener(self.caller)
        self._outbox = RedisOutbox(self.caller)
        self._operate = RedisOperate(self.caller)
        self._inspect = RedisInspect(self.caller, self._operate)
        self._produce = RedisProduce(self.caller, self._inspect, self._outbox, self._durability)
        self.work = RedisWork(self.caller, self.listener, self._outbox)
        self._schedules = RedisSchedules(self.caller, self._outbox, self._durability)
        self._doctor = RedisDoctor(self.caller, MistypedKeys(self.caller))

    async def absent(self) -> str | None:
        return None  # nothing is made before there are jobs

    async def open(self) -> None:
        async with self._opening:
            if self._opened == 0:
                self._compose()
                try:
                    await self.server.open()
                except BaseException:
                    await self.server.close()
                    raise
            self._opened += 1

    async def close(self) -> None:
        async with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0:
                await self.listener.close()
                await self._durability.close()
                await self.server.close()

    def twin(self) -> Store:
        return RedisStore(self._where, clock=self._clock, namespace=self.address.namespace)

    def scan(self) -> RedisScan:
        """Return a reader of whole tables, with a connection of its own."""
        return RedisScan(self.address)

    async def now_ms(self) -> int:
        return await self.caller.now_ms()

    # --- produce

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
        return await self._produce.requeue(which, limit, dry_run, request)

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

    # --- work

    async def register(self, session: Session) -> None:
        await self.work.register(session)

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
        return await self.work.settle_and_claim(session, settlements, queues, room, park, idle, held, only_suspects)

    def given(self, session: Session, room: int) -> list[Claimed]:
        return self.work.given(session, room)

    async def extend(self, session: Session, memory_bytes: int | None = None) -> Extended:
        return await self.work.extend(session, memory_bytes)

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        return await self.work.progress(session, lease, progress, checkpoint)

    async def held(self, session: Session) -> list[Claimed]:
        return await self.work.held(session)

    async def leave(self, session: Session) -> None:
        await self.work.leave(session)

    async def reap(self, queue: str, limit: int = REAPED_AT_ONCE, but: str | None = None) -> Reaped:
        return await self.work.reap(queue, limit, but)

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        return await self.work.chores(queues, but)

    async def expire(self, queue: str, limit: int = EXPIRED_AT_ONCE) -> Expired:
        return await self.work.expire(queue, limit)

    # --- inspect

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        return await self._inspect.get(queue, id, run)

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        return await self._inspect.look_up(ids, queue)

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        return await self._inspect.jobs(which, limit, cursor)

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
        return await self._inspect.events(position, queue, id, limit)

    async def hold(self, reader: str, position: str | None) -> None:
        await self._inspect.hold(reader, position)

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        return await self._inspect.chain(queue, id, run)

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        return await self._inspect.chains(which, limit, cursor)

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

    # --- operate

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        await self._operate.declare(declarations)

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        return await self._operate.configure(queue, set, clear)

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        return await self._operate.adjust(queue, task, set, clear)

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        await self._operate.limit_key(queue, key, concurrency)

    async def command(self, session: str, command: SessionCommand) -> bool:
        return await self._operate.command(session, command)

    # --- schedule

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        return await self._schedules.put_schedule(change, jobs, conflict)

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        return await self._schedules.schedules(queue, name)

    async def due(self, queues: Sequence[str], limit: int = DUE_AT_ONCE) -> Due:
        return await self._schedules.due(queues, limit)

    # --- listen

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        return await self.listener.listen(on_wake, on_finished)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        return await self.listener.watch(listener, queue, id, run)

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        await self.listener.unwatch(listener, queue, id, run)

    # --- doctor

    async def doctor(self) -> list[Finding]:
        return await self._doctor.doctor()


__all__ = ["RedisStore"]
