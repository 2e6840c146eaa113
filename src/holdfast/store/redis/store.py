"""The store as everybody else sees it: each method is one call of a function in the server."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...core.job import ErrorRecord, JobRecord, Progress
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError, StoreError
from ..contract import (
    KEEP,
    Abort,
    Answer,
    Cancelled,
    Claimed,
    Conflict,
    Declaration,
    Due,
    EventPage,
    Extended,
    Filter,
    Finished,
    Fired,
    JobPage,
    Lease,
    Listener,
    NewJob,
    QueueInfo,
    Reaped,
    Running,
    ScheduleChange,
    ScheduleRow,
    Session,
    SessionInfo,
    Settled,
    Settlement,
    Store,
    Turn,
)
from ..unchained import Unchained
from . import record, schedule, steer
from .ear import Ear
from .keys import Keys, long, short
from .look import Reader, rid
from .place import parse
from .scan import RedisScan
from .server import Server
from .settle import arguments
from .sync import Durability

DEFAULT_LEASE_MS = 15_000
MOST_IN_ONE_CALL = 2_000
"""Jobs of one enqueue that go in one call: the server does nothing else meanwhile."""
_json = msgspec.json.encode
_SETTLED = {
    **{word.value.encode(): Settled(word) for word in Reply},
    **{f"ok {state}".encode(): Settled(Reply.OK, state) for state in State},
}
_STALE = Settled(Reply.STALE)


class RedisStore(Unchained):
    """Jobs in Redis or Valkey: `redis://`, `rediss://`, `valkey://`, `redis+cluster://`, `redis+sentinel://`."""

    transactional = False
    turns_at_once = 2
    shared = True

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.url = url
        self.place = parse(url)
        self._clock = clock
        self._keys = Keys(self.place.namespace)
        self._opened = 0
        self._known: set[str] = set()
        self._shift = 0
        self._heard: float | None = None
        self._settings: dict[bytes, QueueSettings] = {}
        self._opening = asyncio.Lock()
        self._make()

    def _make(self) -> None:
        self._server = Server(self.place)
        self._reader = Reader(self._server, self._keys)
        self._ear = Ear(self._server, self._keys)
        self._durability = Durability(self._server)

    # --- life

    def absent(self) -> str | None:
        return None

    def scan(self) -> RedisScan:
        """Return a reader of whole tables, with a connection of its own."""
        return RedisScan(self.place)

    async def open(self) -> None:
        async with self._opening:
            if self._opened == 0:
                self._make()
                try:
                    await self._server.open()
                except BaseException:
                    await self._server.close()
                    raise
            self._opened += 1

    async def close(self) -> None:
        async with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0:
                await self._ear.close()
                await self._durability.close()
                await self._server.close()

    def twin(self) -> Store:
        return RedisStore(self.url, clock=self._clock)

    async def now_ms(self) -> int:
        if self._clock is not None:
            return self._clock()
        seconds, micros = await self._server.ask(["TIME"], None)
        return int(seconds) * 1000 + int(micros) // 1000

    def _now(self) -> str:
        """Return the time for a call: the server's own, unless a test has another."""
        return "" if self._clock is None else str(self._clock())

    async def _know(self, *queues: str) -> None:
        """The names are in the list of queues."""
        new = [name for name in queues if name not in self._known]
        if new:
            key = self._keys.of_store("queues")
            await self._server.ask(["SADD", key, *new], key)
            self._known.update(new)

    async def _hear(self, lease_ms: int) -> int:
        """Somebody was heard now. Return by how much expiries moved with it, because nobody was for a while."""
        now = time.monotonic() * 1000 if self._clock is None else float(self._clock())
        if self._heard is not None and 0 <= now - self._heard < min(1000, lease_ms // 6):
            return 0
        version, shift, gap = await self._server.call("hear", [self._keys.of_store("store")], self._now(), lease_ms)
        self._heard = now
        self._shift = shift
        await self._server.refresh_library(version)
        return int(gap)

    # --- producing

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        if not jobs:
            return []
        if queue not in self._known:
            await self._know(queue)
        answers: list[Answer] = []
        for start in range(0, len(jobs), MOST_IN_ONE_CALL):
            part = jobs[start : start + MOST_IN_ONE_CALL]
            name = "" if request is None else f"{request}/{start}" if start else request
            answers += await self._enqueue(queue, part, conflict, name)
        if self.place.wait_aof or self.place.wait_replicas:
            await self._durability.wait(self._keys.declared(queue))
        return answers

    async def _enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str) -> list[Answer]:
        args: list[Any] = [self._now(), queue, request, self.place.history, _conflict(conflict), len(jobs)]
        reply = await self._server.call("enqueue", [self._keys.declared(queue)], *args, *_asked(jobs))
        return _answers(jobs, reply)

    async def cancel(self, queue: str, id: str, running: Running = "refuse", request: str | None = None) -> Cancelled:
        key = self._keys.declared(queue)
        word, state, run, signalled, successor = await self._server.call(
            "cancel", [key], self._now(), request or "", short(id), running
        )
        return Cancelled(
            reply=Reply(word.decode()),
            state=State(state.decode()) if state else None,
            run=run,
            signalled=bool(signalled),
            successor=bool(successor),
        )

    async def _word(self, name: str, queue: str, *args: Any) -> Reply:
        reply = await self._server.call(name, [self._keys.declared(queue)], self._now(), *args)
        return Reply(reply.decode())

    async def promote(self, queue: str, id: str) -> Reply:
        return await self._word("promote", queue, short(id))

    async def requeue(
        self, which: Filter, *, limit: int = 1000, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        if any(not state.finished for state in which.states):
            raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
        which = msgspec.structs.replace(which, states=which.states or (State.FAILED,))
        done: list[tuple[str, str, int]] = []
        for queue in [which.queue] if which.queue is not None else await self._reader.names():
            if limit > len(done):
                done += await self._requeue(queue, which, limit - len(done), dry_run, request or "")
        return done

    async def _requeue(
        self, queue: str, which: Filter, limit: int, dry_run: bool, request: str
    ) -> list[tuple[str, str, int]]:
        runs = [job.run async for job in self._reader.matching(queue, which, None, limit, self._now(), requeued=False)]
        if not runs and not request:
            return []
        args = ["dry" if dry_run else "do", *(rid(run) for run in reversed(runs))]
        flat = await self._server.call("requeue", [self._keys.declared(queue)], self._now(), request, *args)
        return [(queue, long(id), run) for id, run in zip(flat[::2], flat[1::2], strict=True)]

    async def delete(self, queue: str, id: str) -> Reply:
        return await self._word("delete", queue, short(id))

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        return await self._word("set_ttl", queue, short(id), ttl_ms)

    # --- working

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        for declaration in declarations:
            await self._know(declaration.queue)
            await steer.change(self._server, self._keys, declaration.queue, self._now(), steer.declare(declaration))

    async def register(self, session: Session) -> None:
        await self._know(*session.queues)
        await self._hear(session.lease_ms)
        for queue in session.queues:
            await self._server.call(
                "register", [self._keys.declared(queue)], self._now(), self._shift, queue, session.id,
                session.lease_ms, _json(session), session.address or "",
            )  # fmt: skip

    def _groups(self, queues: Sequence[str]) -> list[list[str]]:
        """Return the queues that one call may have together: all, or in a cluster each alone."""
        return [[queue] for queue in queues] if self.place.kind == "cluster" else [list(queues)]

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
    ) -> Turn:
        if self._heard is None or self._clock is not None or time.monotonic() * 1000 - self._heard > 50:
            await self._hear(session.lease_ms)
        work = _Work(session, settlements, [queue for queue in queues if queue in session.queues], room)
        if self.place.kind == "cluster" and len(session.queues) > 1:
            await self._turn_by_turn(work, park)
        else:
            await self._turn(
                work, session.queues, dict(zip(work.order, range(1, len(work.order) + 1), strict=True)), park
            )
        if work.evicted:
            return Turn(evicted=True, now_ms=work.now)
        await self._deliver_all(work.posted)
        return work.turn()

    async def _turn(self, work: _Work, queues: Sequence[str], ranks: Mapping[str, int], park: bool) -> None:
        """One call: these queues are settled, and claimed from in the order of their ranks."""
        session = work.session
        args: list[Any] = [
            self._now(), self._shift, session.id, session.lease_ms, work.room, "park" if park else "",
            random.randrange(1, 2**31),
        ]  # fmt: skip
        for queue in queues:
            entries = work.entries.pop(queue, ())
            args += (ranks.get(queue, 0), len(entries))
            for _, entry in entries:
                args += arguments(entry)
            work.asked[queue] = entries
        keys = [self._keys.declared(queue) for queue in queues]
        claims = work.room > 0 and any(rank > 0 for rank in ranks.values())
        reply = await self._server.call("turn", keys, *args, repeat=not claims)
        work.now = reply[1]
        if reply[0] == b"evicted":
            work.evicted = True
            return
        work.late = work.late or bool(reply[2])
        for queue, part in zip(queues, reply[3], strict=True):
            self._note(work, queue, part)

    def _note(self, work: _Work, queue: str, part: list[Any]) -> None:
        words, flat, next_at, more, settings, aborts, posted, waiting = part
        for (index, _), word in zip(work.asked.pop(queue), words, strict=True):
            work.settled[index] = _SETTLED[word]
        if flat:
            jobs = [
                record.claimed(queue, run, raw, timeout)
                for run, raw, timeout in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
            ]
            work.claimed += jobs
            work.room -= len(jobs)
        work.next_at[queue] = next_at
        work.more = work.more or bool(more)
        work.settings[queue] = self._decoded(settings)
        work.aborts[queue] = _aborts(queue, aborts)
        work.waiting[queue] = bool(waiting)
        if posted:
            work.posted.append(queue)

    async def _turn_by_turn(self, work: _Work, park: bool) -> None:
        """The same in a cluster: all queues settle at once, and those that have something are claimed from in order."""
        ranks = dict.fromkeys(work.order, -1) if work.room else {}
        first = work.order[0] if ranks else None
        if first is not None:
            await self._turn(work, [first], {first: 1}, park)
        others = [queue for queue in work.session.queues if queue != first]
        results = await asyncio.gather(
            *(self._turn(work, [queue], ranks, park) for queue in others), return_exceptions=True
        )
        for problem in results:
            if isinstance(problem, BaseException):
                raise problem
        for queue in work.order[1:]:
            if work.room > 0 and work.waiting.get(queue) and not work.evicted:
                await self._turn(work, [queue], {queue: 1}, park)
        if work.evicted:  # dead in one queue is dead in all: what was claimed elsewhere must not wait for the lease
            for queue in work.session.queues:
                await self._server.call("leave", [self._keys.declared(queue)], self._now(), work.session.id)

    def _decoded(self, text: bytes) -> QueueSettings:
        settings = self._settings.get(text)
        if settings is None:
            if len(self._settings) > 1000:
                self._settings.clear()
            settings = self._settings[text] = msgspec.json.decode(text, type=QueueSettings)
        return settings

    async def extend(self, session: Session) -> Extended:
        await self._hear(session.lease_ms)
        late, aborts = False, []
        for group in self._groups(session.queues):
            keys = [self._keys.declared(queue) for queue in group]
            reply = await self._server.call("extend", keys, self._now(), self._shift, session.id, session.lease_ms)
            if reply[0] == b"evicted":
                return Extended(evicted=True)
            late = late or bool(reply[1])
            for queue, flat in zip(group, reply[2:], strict=True):
                aborts += _aborts(queue, flat)
        return Extended(late=late, aborts=aborts)

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        report = "" if progress is None else _json(progress)
        kept = b"" if checkpoint is None else b"=" + checkpoint
        return await self._word(
            "progress", lease.queue, session.id, lease.run, lease.attempt, short(lease.id), report, kept
        )

    async def held(self, session: Session) -> list[Claimed]:
        found: list[Claimed] = []
        for queue in session.queues:
            word, *flat = await self._server.call("held", [self._keys.declared(queue)], self._now(), session.id)
            if word == b"evicted":
                return []
            for run, raw, timeout in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
                found.append(record.claimed(queue, run, raw, timeout))
        return found

    async def leave(self, session: Session) -> None:
        for queue in session.queues:
            await self._server.call("leave", [self._keys.declared(queue)], self._now(), session.id)

    async def reap(self, queue: str, limit: int = 100, but: str | None = None) -> Reaped:
        await self._know(queue)
        gap = await self._hear(DEFAULT_LEASE_MS)
        returned, failed, more, posted, sessions = await self._server.call(
            "reap", [self._keys.declared(queue)], self._now(), self._shift, queue, limit, but or ""
        )
        if posted:
            await self._deliver(queue)
        return Reaped(
            sessions=tuple(sorted(id.decode() for id in sessions)),
            returned=returned,
            failed=failed,
            shifted_ms=gap,
            more=bool(more),
        )

    async def expire(self, queue: str, limit: int = 1000) -> int:
        self._known.discard(queue)  # the list of queues may have been lost, and is right again after this
        await self._know(queue)
        gone, posted = await self._server.call(
            "expire", [self._keys.declared(queue)], self._now(), queue, limit, self.place.history
        )
        if posted:
            await self._deliver(queue)
        return int(gone)

    async def hold(self, reader: str, position: str | None) -> None:
        for name, seq in await self._reader.unread(position):
            await self._server.call("hold", [self._keys.declared(name)], self._now(), name, reader, seq)

    # --- steps across queues

    async def _deliver_all(self, queues: Sequence[str]) -> None:
        for queue in queues:
            try:
                await self._deliver(queue)
            except StoreError:
                return  # it is written down, and the next upkeep of anybody delivers it

    async def _deliver(self, queue: str) -> None:
        """What the queue has for others is applied there, in order; the receiver knows what it had before."""
        key = self._keys.declared(queue)
        flat = await self._server.call("outbox", [key], "")
        while flat:
            number, target, message = flat[:3]
            name = target.decode()
            await self._know(name)
            await self._server.call("receive", [self._keys.declared(name)], self._now(), name, queue, number, message)
            flat = await self._server.call("outbox", [key], number)

    # --- looking

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        return await self._reader.get(queue, id, run, self._now())

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        return await self._reader.jobs(which, limit, cursor, self._now())

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
        word, *answers = await self._server.call(
            "put_schedule", [self._keys.declared(change.queue)], self._now(), change.queue,
            *schedule.arguments(change), self.place.history, _conflict(conflict), len(jobs), *_asked(jobs),
        )  # fmt: skip
        if self.place.wait_aof or self.place.wait_replicas:
            await self._durability.wait(self._keys.declared(change.queue))
        return Fired(reply=Reply(word.decode()), answers=_answers(jobs, answers[0]) if answers else [])

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
        return bool(await self._server.call("watch", [key], self._now(), short(id), run, listener.address) == b"ok")

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        await self._server.call("unwatch", [self._keys.declared(queue)], short(id), run, listener.address)

    async def doctor(self) -> list[tuple[str, bool, str]]:
        return await _doctor(self._server)


class _Work:
    """A turn while it is made of several replies."""

    def __init__(self, session: Session, settlements: Sequence[Settlement], order: list[str], room: int) -> None:
        self.session = session
        self.order = order if room > 0 else []
        self.room = room
        self.settled: list[Settled] = [_STALE] * len(settlements)
        self.entries: dict[str, list[tuple[int, Settlement]]] = {}
        for index, entry in enumerate(settlements):
            self.entries.setdefault(entry.lease.queue, []).append((index, entry))
        self.asked: dict[str, Sequence[tuple[int, Settlement]]] = {}
        self.claimed: list[Claimed] = []
        self.next_at: dict[str, int] = {}
        self.settings: dict[str, QueueSettings] = {}
        self.aborts: dict[str, list[tuple[Lease, Abort]]] = {}
        self.waiting: dict[str, bool] = {}
        self.posted: list[str] = []
        self.now = 0
        self.late = self.more = self.evicted = False

    def turn(self) -> Turn:
        """Return the whole of it."""
        instants = [at for at in self.next_at.values() if at >= 0]
        return Turn(
            late=self.late,
            settled=self.settled,
            claimed=self.claimed,
            next_at_ms=min(instants) if instants else None,
            now_ms=self.now,
            settings=self.settings,
            more=self.more,
            aborts=[each for found in self.aborts.values() for each in found],
        )


def _aborts(queue: str, flat: list[Any]) -> list[tuple[Lease, Abort]]:
    return [
        (Lease(queue, long(flat[at]), flat[at + 1], flat[at + 2]), flat[at + 3].decode())
        for at in range(0, len(flat), 4)
    ]


def _conflict(conflict: Conflict) -> bytes:
    if conflict is KEEP:
        return b"{}"
    fields = msgspec.structs.asdict(conflict)
    return _json({**fields, "reset_counts": conflict.resets})


def _spec(job: NewJob) -> bytes:
    """Return what is unusual about a job, for Lua."""
    spec: dict[str, Any] = {
        "run_at": job.run_at_ms,
        "delay": job.delay_ms,
        "priority": job.priority or None,
        "key": job.key,
        "headers": _json(job.headers).decode() if job.headers else None,
        "overrides": _json(job.overrides).decode() if job.overrides else None,
        "ttl": job.result_ttl_ms,
        "watcher": job.watcher,
    }
    if job.dedup is not None:
        dedup = {"key": job.dedup.key, "scope": job.dedup.scope, "exclude": job.dedup.exclude}
        spec["dedup"] = dedup if job.dedup.window_ms is None else {**dedup, "window": job.dedup.window_ms}
    given = {name: value for name, value in spec.items() if value is not None}
    return _json(given) if given else b""


def _asked(jobs: Sequence[NewJob]) -> list[Any]:
    """Return jobs as arguments: four for each."""
    return [part for job in jobs for part in (short(job.id), job.task or "", job.payload, _spec(job))]


def _answers(jobs: Sequence[NewJob], reply: list[Any]) -> list[Answer]:
    if reply[0] == b"new":
        first, letters = reply[1], reply[2].decode()
        return [
            Answer(status="queued", id=job.id, run=first + index, state=record.LETTERS[letters[index]])
            for index, job in enumerate(jobs)
        ]
    return [_answer(job, each) for job, each in zip(jobs, reply[1:], strict=True)]


def _answer(job: NewJob, reply: list[Any]) -> Answer:
    word, id, run, state, result, error = reply
    status = word.decode()
    if job.fresh and status == "duplicate":
        status = "queued"  # the id was made for this call: its first try was done, and only the reply was lost
    return Answer(
        status=status,
        id=long(id),
        run=run,
        state=State(state.decode()),
        result=result,
        error=_error(error) if error else None,
    )


def _error(text: bytes) -> ErrorRecord:
    try:
        return msgspec.json.decode(text, type=ErrorRecord)
    except msgspec.MsgspecError as error:
        return ErrorRecord(type="CorruptRecord", kind="corrupt", message=str(error))


async def _doctor(server: Server) -> list[tuple[str, bool, str]]:
    info = (await server.ask(["INFO"], None)).decode("utf-8", "replace")
    lines = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    policy = lines.get("maxmemory_policy", "noeviction")
    evicts = policy != "noeviction" and lines.get("maxmemory", "0") != "0"
    name = f"Valkey {lines['valkey_version']}" if "valkey_version" in lines else f"Redis {lines.get('redis_version')}"
    aof = lines.get("aof_enabled") == "1"
    return [
        ("server", True, f"{name}, {lines.get('used_memory_human')} used"),
        (
            "eviction",
            not evicts,
            f"maxmemory-policy {policy}" + (": jobs may vanish; set noeviction" if evicts else ""),
        ),
        ("durability", aof, "the append-only file is on" if aof else "no append-only file: a restart loses jobs"),
    ]


__all__ = ["RedisStore"]
