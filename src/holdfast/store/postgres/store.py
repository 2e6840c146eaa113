"""The store as everybody else sees it: each method is one call of one function in the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec

from ...core.chain import ChainRef
from ...core.job import Progress, run_number
from ...core.limit import QueueSettings
from ...core.policy import Cause, Policy
from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError, StoreClosed
from ..contract import (
    KEEP,
    Cancelled,
    Claimed,
    Conflict,
    Corrupt,
    Declaration,
    Deleted,
    Due,
    Expired,
    Extended,
    Failed,
    Filter,
    Finished,
    Fired,
    Joined,
    Lease,
    Listener,
    NewJob,
    Opened,
    Reaped,
    Running,
    ScheduleChange,
    ScheduleRow,
    Session,
    Settlement,
    Store,
    Turn,
)
from . import call, migration, schedule, sql
from .array import blob, texts
from .calling import Rows
from .connection import Connection
from .enqueue import REMEMBERED_MS, Enqueuing
from .join import joined
from .look import filter_values
from .opened import opened
from .scan import PostgresScan
from .steer import Steering

T = TypeVar("T")
_json = msgspec.json.Encoder().encode


class PostgresStore(Enqueuing):
    """Jobs in a schema of a PostgreSQL database (`postgresql://user@host/database?schema=holdfast`)."""

    transactional = True
    turns_at_once = 2
    atomic = True
    shared = True

    def __init__(self, url: Any, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(url, clock=clock)
        self._turn = self._named(call.TURN)
        self._reader = call.Reader()

    def scan(self) -> PostgresScan:
        """Return a reader of whole tables, with a connection of its own."""
        return PostgresScan(self.place)

    def twin(self) -> Store:
        return PostgresStore(self.url, clock=self._clock)

    def script(self, since: int = 0) -> str:
        """Return the SQL that makes the schema, or brings one with this number up, for whoever applies it by hand."""
        newest = migration.newest()
        if since > newest:
            raise ConfigError(f"--since={since}: this Holdfast knows schemas up to {newest}")
        return migration.script(self.place.schema, since)

    def join(self, connection: Any) -> Joined:
        return joined(self.place, self._identity, self._now, connection)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        if self._pool is None:
            raise StoreClosed(f"{self.place} is not open, or is closed already")
        return opened(self._pool, self.place, self._now)

    async def cancel(self, queue: str, id: str, running: Running = "refuse", request: str | None = None) -> Cancelled:
        found = await self._value(
            "SELECT holdfast.cancel(%s::bigint, %s, %s, %s, %s)::text",
            self._now(), queue, id, running, request, repeatable=request is not None,
        )  # fmt: skip
        return msgspec.json.decode(found, type=Cancelled)

    async def promote(self, queue: str, id: str) -> Reply:
        return Reply(await self._value("SELECT holdfast.promote(%s::bigint, %s, %s)", self._now(), queue, id))

    async def requeue(
        self, which: Filter, *, limit: int = 1000, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        if any(not state.finished for state in which.states):
            raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
        which = msgspec.structs.replace(which, states=which.states or (State.FAILED,))
        found = await self._value(
            "SELECT holdfast.requeue(%s::bigint, %s, %s::text[], %s, %s, %s::text[], %s::bigint, %s::bigint,"
            " %s::integer, %s, %s)::text",
            self._now(), *filter_values(which).values(), limit, dry_run, request,
            repeatable=request is not None or dry_run,
        )  # fmt: skip
        return msgspec.json.decode(found, type=list[tuple[str, str, int]])

    async def delete(self, queue: str, id: str) -> Reply:
        return Reply(
            await self._value("SELECT holdfast.delete(%s::bigint, %s, %s)", self._now(), queue, id, repeatable=False)
        )

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        return Reply(
            await self._value(
                "SELECT holdfast.set_result_ttl(%s::bigint, %s, %s, %s::bigint)", self._now(), queue, id, ttl_ms
            )
        )

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        await self._value(
            "SELECT holdfast.keep_runs(%s::bigint, %s, %s::bigint, %s::bigint, %s::bigint)",
            self._now(), queue, first, last, ttl_ms,
        )  # fmt: skip

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        return Reply(
            await self._value(
                "SELECT holdfast.complete_chain(%s::bigint, %s, %s, %s::bigint, %s::bytea, %s::bigint, %s)",
                self._now(), queue, id, run_number(run), blob(result), result_ttl_ms, request,
                repeatable=request is not None,
            )
        )  # fmt: skip

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> Deleted:
        statement = self._named(
            "SELECT v_reply, v_chains, v_waiting::text FROM holdfast.delete_chain(%s::bigint, %s, %s, %s::bigint, %s)"
        )
        values = (self._now(), queue, id, run_number(run), cascade)
        ((reply, chains, waiting),) = await self._rows(statement, values, repeatable=False)
        refs = msgspec.json.decode(waiting) if waiting and reply == "wrong_state" else ()
        return Deleted(reply=Reply(reply), chains=chains, waiting=tuple(ChainRef(*each) for each in refs))

    # --- working

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        await self._steer(lambda steering: steering.declare(declarations))

    async def register(self, session: Session) -> None:
        await self._value(
            "SELECT holdfast.register(%s::bigint, %s, %s::text[], %s::bytea, %s::bigint, %s)",
            self._now(), session.id, texts(session.queues), blob(_json(session)), session.lease_ms, session.address,
        )  # fmt: skip

    def given(self, session: Session, room: int) -> list[Claimed]:
        return []  # whoever is woken asks

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
        self._doubt.settle(session.id)
        ear = self._switchboard.find(session.address) if park else None
        values = call.turn(self._now(), session, settlements, queues, room, park)
        more = [call.continuations(settlements), str(held), only_suspects]

        missed: Rows = []

        async def work(connection: Connection, again: bool) -> Rows:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(self._turn, [*values, again, *more])
                rows = await cursor.fetchall()
                if ear is not None and len(rows) <= room:
                    await cursor.execute(self._look_again, (session.id, texts(queues), None))
                    missed[:] = await cursor.fetchall()
                return rows

        rows = await self._insist(work, repeatable=False, patient=False)
        turn, broken = self._reader.turn(rows, len(settlements), session.id, self._pool.made if self._pool else 0)
        if broken:
            await self._set_aside(session, broken)
        if ear is not None and missed and not turn.evicted:
            ((found, before),) = missed
            ear.wake() if found else self._doubt.raise_(session.id, queues, ear, before)
        return turn

    async def _set_aside(self, session: Session, broken: Sequence[tuple[Lease, Any]]) -> None:
        failed = [Failed(lease, error, Cause.CORRUPT) for lease, error in broken]
        await self.settle_and_claim(session, failed, (), 0)

    async def extend(self, session: Session) -> Extended:
        statement = self._named(
            "SELECT v_evicted, v_late, v_aborts::text FROM holdfast.extend(%s::bigint, %s, %s::bigint)"
        )
        values = (self._now(), session.id, str(session.lease_ms))
        ((evicted, late, aborts),) = await self._rows(statement, values, patient=False)
        if evicted:
            return Extended(evicted=True)
        return Extended(late=late, aborts=call.aborts(msgspec.json.decode(aborts) if aborts else None))

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        fraction, message = (progress.fraction, progress.message) if progress else (None, None)
        encoded = blob(_json(progress)) if progress is not None else None
        return Reply(
            await self._value(
                "SELECT holdfast.progress(%s::bigint, %s, %s, %s, %s::bigint, %s::integer, %s::bytea, %s::bytea,"
                " %s::double precision, %s)",
                self._now(), session.id, lease.queue, lease.id, lease.run, lease.attempt, encoded, blob(checkpoint),
                fraction, None if message is None else message.replace("\0", "\ufffd"),
            )
        )  # fmt: skip

    async def held(self, session: Session) -> list[Claimed]:
        values = {"now": self._now(), "session": session.id}
        rows = await self._rows(self._statements["held"], values, patient=False)
        found = []
        broken = []
        for *row, claimed_at in rows:
            jobs, bad = call.claimed_rows([row], claimed_at)
            found += jobs
            broken += bad
        if broken:
            await self._set_aside(session, broken)
        return found

    async def leave(self, session: Session) -> None:
        await self._value("SELECT holdfast.leave(%s::bigint, %s)", self._now(), session.id)
        self._reader.forget(session.id)

    async def reap(self, queue: str, limit: int = 100, but: str | None = None) -> Reaped:
        statement = self._named(
            "SELECT r.*, holdfast.next_lease(%s::bigint, %s, %s) FROM holdfast.reap(%s::bigint, %s, %s::integer, %s) r"
        )
        now, but = self._now(), but or ""
        values = (now, queue, but, now, queue, limit, but)
        ((sessions, returned, failed, shifted, more, next_ms),) = await self._rows(statement, values)
        told = await self._rows(
            self._named("SELECT * FROM holdfast.tell_corrupt(%s::bigint)"), (self._now(),), named=True
        )
        return Reaped(
            sessions=tuple(sessions), returned=returned, failed=failed, shifted_ms=shifted, more=more, next_ms=next_ms,
            corrupt=tuple(Corrupt(**row) for row in told),
        )  # fmt: skip

    async def expire(self, queue: str, limit: int = 1000) -> Expired:
        statement = self._named("SELECT * FROM holdfast.expire(%s::bigint, %s, %s::integer, %s::bigint, %s::bigint)")
        values = (self._now(), queue, limit, self.place.history, REMEMBERED_MS)
        ((runs, by_age, by_count, more),) = await self._rows(statement, values)
        return Expired(runs=runs, failed_by_age=by_age, failed_by_count=by_count, more=more)

    # --- steering

    async def _steer(self, work: Callable[[Steering], Awaitable[T]]) -> T:
        async def transaction(connection: Connection, again: bool) -> T:
            async with connection.transaction():
                await connection.execute(sql.LOCALLY)
                return await work(Steering(connection, self.place.schema, self._now()))

        return await self._insist(transaction, repeatable=True)

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        return await self._steer(lambda steering: steering.configure(queue, set, clear))

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        return await self._steer(lambda steering: steering.adjust(queue, task, set, clear))

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        await self._steer(lambda steering: steering.limit_key(queue, key, concurrency))

    # --- schedules

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        values = schedule.values(self._now(), change)
        request = f"{change.revision}/jobs"

        async def work(connection: Connection, again: bool) -> tuple[str, Rows]:
            async with connection.transaction(), connection.cursor(binary=True) as cursor:
                await cursor.execute(self._named(schedule.PUT), values)
                ((word,),) = await cursor.fetchall()
                if word != Reply.OK or not jobs:
                    return word, []
                await cursor.execute(self._enqueue, call.enqueue(self._now(), change.queue, jobs, conflict, request))
                return word, await cursor.fetchall()

        word, rows = await self._insist(work, repeatable=True)
        return Fired(reply=Reply(word), answers=[call.answer(row) for row in rows])

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        return [ScheduleRow(**row) for row in await self._look("schedules", queue=queue, schedule=name)]

    async def due(self, queues: Sequence[str], limit: int = 100) -> Due:
        return schedule.due(await self._look("due", queues=texts(queues), limit=limit))

    # --- hearing

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        return await self._switchboard.listen(on_wake, on_finished)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        found: bool = await self._value(
            "SELECT holdfast.watch_run(%s::bigint, %s, %s, %s::bigint, %s)",
            self._now(), queue, id, run_number(run), listener.address,
        )  # fmt: skip
        return found

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        statement = self._named("DELETE FROM holdfast.watch WHERE run = %s::bigint AND address = %s")
        await self._rows(statement, (run, listener.address))


__all__ = ["PostgresStore"]
