"""The store as everybody else sees it: each method is one piece of work for one of the two threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from msgspec.structs import replace

from ...core.job import JobRecord, Progress
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.transition import Reply
from ...errors import StoreError
from ..contract import (
    KEEP,
    Answer,
    BlockerRecord,
    Cancelled,
    ChainPage,
    ChainRecord,
    Claimed,
    Conflict,
    Corrupt,
    Declaration,
    Deleted,
    Due,
    EventPage,
    Expired,
    Extended,
    Filter,
    Finding,
    Finished,
    Fired,
    JobPage,
    Joined,
    Lease,
    Listener,
    NewJob,
    Opened,
    QueueInfo,
    Reaped,
    Running,
    ScheduleChange,
    ScheduleRow,
    Session,
    SessionInfo,
    Settlement,
    Store,
    Turn,
)
from ..row import suspected
from . import blocker, chain, doctor, end, enqueue, expire, look, reader, schedule, session, settle, steer
from .base import Base
from .bell import Ear
from .join import joined
from .log import NEW_JOBS
from .opened import opened
from .scan import SqliteScan
from .tx import Tx

T = TypeVar("T")
REMEMBERED_MS = 10 * 60 * 1000
"""For how long the answer to a request id is kept."""
SMALL = 20
"""Up to so many jobs, work is small enough to be done in the event loop's own thread: some hundred microseconds."""
SMALL_BYTES = 64 * 1024
SWEPT_AT = 1000
"""After so many jobs that were enqueued, a producer sweeps the log."""


class SqliteStore(Base):
    """Jobs in a SQLite file (`sqlite:///path`) or in this process's memory (`memory://`)."""

    atomic = False
    turns_at_once = 1

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(url, clock=clock)
        self._unswept = 0
        self._busy: set[str] = set()
        """Sessions whose last claim was a large one."""

    def twin(self) -> Store:
        return self

    def scan(self) -> SqliteScan:
        """Return a reader of whole tables, with a connection of its own."""
        return SqliteScan(self.place)

    async def now_ms(self) -> int:
        return self._clock()

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        if not jobs:
            return []
        self._writer.log.admit(NEW_JOBS)
        small = len(jobs) <= SMALL and sum(len(job.payload) for job in jobs) <= SMALL_BYTES
        answers = await self._write_once(
            request, lambda tx: enqueue.enqueue(tx, queue, jobs, conflict), list[Answer], small=small
        )
        self._unswept += len(jobs)
        if self._unswept >= SWEPT_AT:
            await self._sweep()
        return answers

    async def _sweep(self) -> None:
        """The log keeps its length though no worker looks after it: twice as many events may go as have come."""
        count, self._unswept = self._unswept, 0
        with contextlib.suppress(StoreError):  # the jobs are taken in, and whoever enqueues next sweeps again
            await self._write(lambda tx: expire.sweep(tx, self.place.history, REMEMBERED_MS, 2 * count))

    def join(self, connection: Any) -> Joined:
        return joined(self.place, connection, self._clock)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        return opened(self.place, self._clock)

    async def cancel(self, queue: str, id: str, running: Running = "refuse", request: str | None = None) -> Cancelled:
        return await self._write_once(request, lambda tx: steer.cancel(tx, queue, id, running), Cancelled, small=True)

    async def promote(self, queue: str, id: str) -> Reply:
        return await self._write(lambda tx: steer.promote(tx, queue, id))

    async def requeue(
        self, which: Filter, *, limit: int = 1000, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        return await self._write_once(
            request, lambda tx: steer.requeue(tx, which, limit, dry_run), list[tuple[str, str, int]]
        )

    async def delete(self, queue: str, id: str) -> Reply:
        return await self._write(lambda tx: steer.delete(tx, queue, id))

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        return await self._write(lambda tx: steer.set_result_ttl(tx, queue, id, ttl_ms))

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        await self._write(lambda tx: steer.keep_runs(tx, queue, first, last, ttl_ms))

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        return await self._write_once(
            request, lambda tx: end.complete_chain(tx, queue, id, run, result, result_ttl_ms), Reply, small=True
        )

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> Deleted:
        return await self._write(lambda tx: steer.delete_chain(tx, queue, id, run, cascade))

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        await self._write(lambda tx: steer.declare(tx, declarations))

    async def register(self, session_: Session) -> None:
        await self._write(lambda tx: session.register(tx, session_))

    def given(self, session_: Session, room: int) -> list[Claimed]:
        return []  # whoever is woken asks

    async def settle_and_claim(
        self,
        session_: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        # An idle worker has much room and finds little: that is done at once. One that finds much gets it in batches.
        small = len(settlements) <= SMALL and session_.id not in self._busy
        most = min(room, SMALL) if small else room
        ask = session.Ask(queues, most, park, held, only_suspects)
        turn = await self._turn(session_, settlements, ask, small)
        room = min([room, *(job.company - held for job in turn.claimed if job.company is not None)])
        if len(turn.claimed) == most < room:
            rest = await self._turn(session_, (), replace(ask, room=room - most, held=held + most), False)
            if not rest.evicted:
                turn = replace(rest, settled=turn.settled, claimed=turn.claimed + rest.claimed)
        if len(turn.claimed) >= SMALL:
            self._busy.add(session_.id)
        else:
            self._busy.discard(session_.id)
        return turn

    async def _turn(
        self,
        session_: Session,
        settlements: Sequence[Settlement],
        ask: session.Ask,
        small: bool,
    ) -> Turn:
        return await self._write(lambda tx: session.turn(tx, session_, list(settlements), ask), small=small)

    async def extend(self, session_: Session) -> Extended:
        return await self._write(lambda tx: session.extend(tx, session_))

    async def progress(
        self, session_: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        return await self._write(lambda tx: settle.progress(tx, session_, lease, progress, checkpoint), small=True)

    async def held(self, session_: Session) -> list[Claimed]:
        return await self._write(lambda tx: session.held(tx, session_))

    async def leave(self, session_: Session) -> None:
        self._busy.discard(session_.id)
        await self._write(lambda tx: session.leave(tx, session_))

    async def reap(self, queue: str, limit: int = 100, but: str | None = None) -> Reaped:
        return await self._write(lambda tx: session.reap(tx, queue, limit, but or ""))

    async def expire(self, queue: str, limit: int = 1000) -> Expired:
        return await self._write(lambda tx: expire.expire(tx, queue, limit, self.place.history, REMEMBERED_MS))

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        return await self._read(lambda tx: look.get(tx, queue, id, run), small=True)

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        return await self._read(lambda tx: look.jobs(tx, which, limit, cursor))

    async def pending(self, queues: Sequence[str]) -> bool:
        return await self._read(lambda tx: any(look.pending(tx, queue) for queue in queues))

    async def queues(self) -> list[QueueInfo]:
        return await self._read(look.queues)

    async def sessions(self) -> list[SessionInfo]:
        return await self._read(look.sessions)

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        return await self._read(lambda tx: look.policies(tx, queue))

    async def events(
        self, position: str | None = None, *, queue: str | None = None, id: str | None = None, limit: int = 1000
    ) -> EventPage:
        return await self._read(lambda tx: look.events(tx, position, queue, id, limit))

    async def hold(self, reader_: str, position: str | None) -> None:
        await self._write(lambda tx: reader.hold(tx, reader_, position))

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        return await self._read(lambda tx: chain.get(tx, queue, id, run), small=True)

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        return await self._read(lambda tx: chain.chains(tx, which, limit, cursor))

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        return await self._read(lambda tx: blocker.look(tx, run))

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        return await self._write(lambda tx: steer.configure(tx, queue, set, clear))

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        return await self._write(lambda tx: steer.adjust(tx, queue, task, set, clear))

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        await self._write(lambda tx: steer.limit_key(tx, queue, key, concurrency))

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        return await self._write_once(
            change.revision, lambda tx: schedule.put(tx, change, jobs, conflict), Fired, small=len(jobs) <= SMALL
        )

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        return await self._read(lambda tx: schedule.found(tx, queue, name))

    async def due(self, queues: Sequence[str], limit: int = 100) -> Due:
        return await self._read(lambda tx: schedule.due(tx, queues, limit), small=True)

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        return await Ear(on_wake, on_finished).open(other_processes=self.shared)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        def work(tx: Tx) -> bool:
            job = look.get(tx, queue, id, run)
            if job is None or job.outcome.finished:
                successor = tx.row("update", "successor", queue=queue, id=id)
                if successor is None or successor["run"] != run:
                    return False
            tx.watch(queue, id, run, listener.address)
            return True

        return await self._write(work, small=True)

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        await self._write(
            lambda tx: tx.run("session", "unwatch", queue=queue, id=id, run=run, address=listener.address) and None
        )

    async def doctor(self) -> list[Finding]:
        await self._mend()
        corrupt = await self._read(lambda tx: [Corrupt(**row) for row in tx.rows("corrupt", "all")])
        found = await self._read(lambda tx: [suspected(**row) for row in tx.rows("claim", "a_suspect")])
        of_file = await self._reader.ask(lambda connection, after: doctor.findings(connection, self.place, corrupt))
        return [*of_file, *(found or [suspected(0, "", "", 0)])]


__all__ = ["SqliteStore"]
