"""The store as everybody else sees it: each method is one call of one function in the server."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg.rows import dict_row, tuple_row

from ...core.job import JobRecord, Progress
from ...core.limit import QueueSettings
from ...core.policy import Cause, Policy
from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError, StoreClosed
from ..contract import (
    KEEP,
    Answer,
    Cancelled,
    Claimed,
    Conflict,
    Declaration,
    Due,
    EventPage,
    Extended,
    Failed,
    Filter,
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
from ..unchained import Unchained
from . import call, look, migration, schedule, sql
from .array import blob, texts
from .connection import TRY_AGAIN, Connection, Pool, connect, is_lost, parse, translate
from .join import Identity, joined
from .listen import Doubt, Switchboard
from .opened import opened
from .scan import PostgresScan
from .steer import Steering

T = TypeVar("T")
Rows = list[Any]
REMEMBERED_MS = 10 * 60 * 1000
"""For how long the answer to a request id is kept."""
DEFAULT_LEASE_MS = 15_000
LOST_CALLS = 3
"""How often a call that may be repeated is tried when its connection is lost."""
_json = msgspec.json.Encoder().encode


class PostgresStore(Unchained):
    """Jobs in a schema of a PostgreSQL database (`postgresql://user@host/database?schema=holdfast`)."""

    transactional = True
    turns_at_once = 1
    atomic = True
    shared = True

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.url = url
        self.place = parse(url)
        self._clock = clock
        self._statements = sql.statements(self.place.schema)
        self._enqueue = self._named(call.ENQUEUE)
        self._turn = self._named(call.TURN)
        self._reader = call.Reader()
        self._opened = 0
        self._pool: Pool | None = None
        self._identity = Identity(self.place)
        self._home: asyncio.AbstractEventLoop | None = None
        self._switchboard = Switchboard(self.place)
        self._doubt = Doubt(self._claimable)

    def absent(self) -> str | None:
        return None

    def scan(self) -> PostgresScan:
        """Return a reader of whole tables, with a connection of its own."""
        return PostgresScan(self.place)

    async def open(self) -> None:
        self._opened += 1
        if self._opened > 1:
            return
        try:
            connection = await connect(self.place)
            try:
                await migration.migrate(connection, self.place)
            except psycopg.Error as error:
                raise translate(error, self.place) from error
            finally:
                await connection.close()
        except BaseException:
            self._opened = 0
            raise
        self._home = asyncio.get_running_loop()
        self._pool = Pool(self.place)

    async def close(self) -> None:
        self._opened = max(0, self._opened - 1)
        if self._opened:
            return
        pool, self._pool = self._pool, None
        await self._doubt.close()
        await self._switchboard.close()
        if pool is not None:
            await pool.close()

    def twin(self) -> Store:
        return PostgresStore(self.url, clock=self._clock)

    def script(self) -> str:
        """Return the SQL that makes the schema, for whoever applies it by hand."""
        return migration.script(self.place.schema)

    # --- calling

    def _named(self, statement: str) -> str:
        return sql.rename(statement, self.place.schema)

    def _now(self) -> str | None:
        return None if self._clock is None else str(self._clock())

    async def _insist(self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool) -> T:
        """Return what the work returns, done in the loop in which the store was opened."""
        home = self._home
        if home is None or home is asyncio.get_running_loop():
            return await self._insist_here(work, repeatable=repeatable)
        there = asyncio.run_coroutine_threadsafe(self._insist_here(work, repeatable=repeatable), home)
        return await asyncio.wrap_future(there)

    async def _insist_here(self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool) -> T:
        """Return what the work returns; it is done again when nothing of it was done, within a bound.

        After a lost connection nobody knows what was done: then it is done again only when it may be repeated.
        """
        deadline = time.monotonic() + self.place.patience
        lost = tries = 0
        while True:
            if self._pool is None:
                raise StoreClosed(f"{self.place} is not open, or is closed already")
            try:
                async with self._pool.connection() as connection:
                    return await work(connection, tries > 0)
            except psycopg.Error as error:
                if is_lost(error):
                    lost += 1
                    if self._pool is not None:
                        await self._pool.forget_idle()
                    again = repeatable and lost < LOST_CALLS
                else:
                    again = error.sqlstate in TRY_AGAIN
                if not again or time.monotonic() > deadline:
                    raise translate(error, self.place) from error
            except UnicodeEncodeError as error:
                raise ConfigError(f"PostgreSQL keeps UTF-8 alone: {error}") from None
            tries += 1
            await asyncio.sleep(min(0.001 * 2**tries, 0.1) * random.uniform(0.5, 1.0))

    async def _rows(self, statement: str, values: Any, *, repeatable: bool = True, named: bool = False) -> Rows:
        async def work(connection: Connection, again: bool) -> Rows:
            factory: Any = dict_row if named else tuple_row
            async with connection.cursor(binary=True, row_factory=factory) as cursor:
                await cursor.execute(statement, values)
                return await cursor.fetchall() if cursor.description else []

        return await self._insist(work, repeatable=repeatable)

    async def _value(self, statement: str, *values: Any, repeatable: bool = True) -> Any:
        rows = await self._rows(self._named(statement), values, repeatable=repeatable)
        return rows[0][0]

    async def _steer(self, work: Callable[[Steering], Awaitable[T]]) -> T:
        async def transaction(connection: Connection, again: bool) -> T:
            async with connection.transaction():
                return await work(Steering(connection, self.place.schema, self._now()))

        return await self._insist(transaction, repeatable=True)

    async def _look(self, name: str, **values: Any) -> Rows:
        return await self._rows(self._statements[name], {"now": self._now(), **values}, named=True)

    async def now_ms(self) -> int:
        now: int = await self._value("SELECT holdfast.clock(%s::bigint)", self._now())
        return now

    # --- producing

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        if not jobs:
            return []
        values = call.enqueue(self._now(), queue, jobs, conflict, request)
        fresh = all(job.fresh for job in jobs)
        tries = 0

        async def work(connection: Connection, again: bool) -> Rows:
            nonlocal tries
            tries += 1
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(self._enqueue, values)
                return await cursor.fetchall()

        rows = await self._insist(work, repeatable=fresh or request is not None)
        # An id that was made for this call and is there already came in with a try whose reply was lost.
        return [call.answer(row, ours=fresh and tries > 1) for row in rows]

    def join(self, connection: Any) -> Joined:
        return joined(self.place, self._identity, self._now, connection)

    def begin(self) -> AbstractAsyncContextManager[Opened]:
        if self._pool is None:
            raise StoreClosed(f"{self.place} is not open, or is closed already")
        return opened(self._pool, self.place.schema, self._now)

    async def cancel(self, queue: str, id: str, running: Running = "refuse", request: str | None = None) -> Cancelled:
        found = await self._value(
            "SELECT holdfast.cancel(%s::bigint, %s, %s, %s, %s)::text",
            self._now(), queue, id, running != "refuse", request, repeatable=request is not None,
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
            self._now(), *look.filter_values(which).values(), limit, dry_run, request,
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

    # --- working

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        await self._steer(lambda steering: steering.declare(declarations))

    async def register(self, session: Session) -> None:
        await self._value(
            "SELECT holdfast.register(%s::bigint, %s, %s::text[], %s::bytea, %s::bigint, %s)",
            self._now(), session.id, texts(session.queues), blob(_json(session)), session.lease_ms, session.address,
        )  # fmt: skip

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
    ) -> Turn:
        self._doubt.settle(session.id)
        values = call.turn(self._now(), session, settlements, queues, room, park)

        async def work(connection: Connection, again: bool) -> Rows:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(self._turn, [*values, again])
                return await cursor.fetchall()

        turn, broken = self._reader.turn(await self._insist(work, repeatable=False), len(settlements))
        if broken:
            await self._set_aside(session, broken)
        if park and not turn.evicted and len(turn.claimed) < room and (ear := self._switchboard.find(session.address)):
            self._doubt.raise_(session.id, ear)
        return turn

    async def _set_aside(self, session: Session, broken: Sequence[tuple[Lease, Any]]) -> None:
        failed = [Failed(lease, error, Cause.CORRUPT) for lease, error in broken]
        await self.settle_and_claim(session, failed, (), 0)

    async def _claimable(self, session: str) -> bool:
        found: bool = await self._value("SELECT holdfast.claimable(%s)", session)
        return found

    async def extend(self, session: Session) -> Extended:
        statement = self._named(
            "SELECT v_evicted, v_late, v_aborts::text FROM holdfast.extend(%s::bigint, %s, %s::bigint)"
        )
        ((evicted, late, aborts),) = await self._rows(statement, (self._now(), session.id, str(session.lease_ms)))
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
        rows = await self._rows(self._statements["held"], values)
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

    async def reap(self, queue: str, limit: int = 100, but: str | None = None) -> Reaped:
        statement = self._named("SELECT * FROM holdfast.reap(%s::bigint, %s, %s::integer, %s, %s::bigint)")
        values = (self._now(), queue, limit, but or "", DEFAULT_LEASE_MS)
        ((sessions, returned, failed, shifted, more),) = await self._rows(statement, values)
        return Reaped(sessions=tuple(sessions), returned=returned, failed=failed, shifted_ms=shifted, more=more)

    async def expire(self, queue: str, limit: int = 1000) -> int:
        gone: int = await self._value(
            "SELECT holdfast.expire(%s::bigint, %s, %s::integer, %s::bigint, %s::bigint)",
            self._now(), queue, limit, self.place.history, REMEMBERED_MS,
        )  # fmt: skip
        return gone

    async def hold(self, reader: str, position: str | None) -> None:
        page = None if position is None else await self.events(position, limit=1)
        xid, seq = (None, 0) if page is None else look.read_to("" if page.reset else position or "")
        await self._value(
            "SELECT holdfast.read_to(%s::bigint, %s, %s::xid8, %s::bigint)", self._now(), reader, xid, seq
        )

    # --- looking

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        name = "get" if run is None else "run"
        rows = await self._look(name, queue=queue, id=id, run=run)
        return look.record(rows[0]) if rows else None

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        rows = await self._look("list", before=look.before(cursor), limit=limit + 1, **look.filter_values(which))
        page = [record for row in rows[:limit] if (record := look.record(row))]
        return JobPage(jobs=page, cursor=str(page[-1].run) if len(rows) > limit else None)

    async def pending(self, queues: Sequence[str]) -> bool:
        rows = await self._look("pending", queues=texts(queues))
        return bool(rows[0]["exists"])

    async def queues(self) -> list[QueueInfo]:
        return [look.queue(row) for row in await self._look("queues")]

    async def sessions(self) -> list[SessionInfo]:
        return [look.session(row) for row in await self._look("sessions")]

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        rows = await self._look("policies", queue=queue)
        return {row["task"]: look.policy(row["declared"], row["operator"]) for row in rows}

    async def events(
        self, position: str | None = None, *, queue: str | None = None, id: str | None = None, limit: int = 1000
    ) -> EventPage:
        at = look.Position(None if position in (None, "end") else position)
        wanted = 0 if position == "end" else limit
        rows = await self._look("events", queue=queue, id=id, limit=wanted, **at.values())
        page = look.events(rows, position, limit)
        if page is None:
            page = msgspec.structs.replace(await self.events(None, queue=queue, id=id, limit=limit), reset=True)
        return page

    # --- steering

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
            self._now(), queue, id, run, listener.address,
        )  # fmt: skip
        return found

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        statement = self._named("DELETE FROM holdfast.watch WHERE run = %s::bigint AND address = %s")
        await self._rows(statement, (run, listener.address))

    async def doctor(self) -> list[tuple[str, bool, str]]:
        ((version, standby, durable, connections, most),) = await self._rows(
            "SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('synchronous_commit'),"
            " (SELECT count(*) FROM pg_stat_activity), current_setting('max_connections')::integer",
            (),
        )
        return [
            ("server", not standby, f"PostgreSQL {version}" + (", a replica: it cannot be written" if standby else "")),
            ("durability", durable != "off", f"synchronous_commit is {durable}"),
            ("connections", connections < most, f"{connections} of {most} in use"),
        ]


__all__ = ["PostgresStore"]
