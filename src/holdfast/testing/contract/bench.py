"""A store on a workbench: short ways to bring a job into a state, and to look at what became of it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import msgspec

from ...core.action import OPERATE
from ...core.envelope import Envelope
from ...core.event import Event
from ...core.job import ErrorRecord, JobRecord
from ...core.policy import Cause, Policy, Retry
from ...core.state import State
from ...store.contract import (
    KEEP,
    Answer,
    Claimed,
    Complete,
    Conflict,
    Declaration,
    Failed,
    Filter,
    Finished,
    Lease,
    Listener,
    NewJob,
    Reaped,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Snoozed,
    Store,
    Turn,
)
from ..clock import ManualClock
from ..replay import Replay, listed, read
from .harness import Harness, Meddling

QUEUE = "q"
TASK = "t"
LEASE_MS = 15_000
DAY = 24 * 3600.0
ERROR = ErrorRecord(type="ValueError", message="no good")
PATIENCE = 10.0
UPDATE = Conflict(on_conflict="update")


def carrying(*, headers: Mapping[str, str] | None = None, tags: Sequence[str] = ()) -> bytes | None:
    """Return an envelope with these headers and tags, as stores get it."""
    return Envelope(headers=dict(headers or {}), tags=tuple(tags)).encoded()


class Bench:
    """One open store with a manual clock, and everything that a test does to it."""

    def __init__(self, harness: Harness, store: Store, clock: ManualClock) -> None:
        self.harness = Meddling(harness)
        self.store = store
        self.clock = clock
        self._replay: Replay | None = None
        self._read: str | None = None
        self._numbers = itertools.count(1)
        self._sessions: list[Session] = []
        self._others: list[Store] = []
        self._listeners: list[Listener] = []
        self._watchman: Session | None = None

    @property
    def now(self) -> int:
        """The store's time, in milliseconds."""
        return self.clock.now_ms

    # --- stores and sessions

    async def another(self, *, behind: float = 0) -> Store:
        """Return a second store object on the same jobs, open; its clock may be so many seconds behind."""
        store = self.harness.make(lambda: self.clock() - round(behind * 1000))
        await store.open()
        self._others.append(store)
        return store

    async def session(
        self, *queues: str, lease_ms: int = LEASE_MS, address: str | None = None, slots: int = 1
    ) -> Session:
        """Return a session that is registered. With one slot, a job that stalls with it was alone."""
        number = next(self._numbers)
        session = Session(
            id=f"session-{number}",
            name=f"worker-{number}",
            host="here",
            pid=number,
            queues=queues or (QUEUE,),
            lease_ms=lease_ms,
            address=address,
            slots=slots,
        )
        await self.register(session)
        return session

    async def register(self, session: Session) -> None:
        """The session is registered, in place of one that has its id."""
        await self.store.register(session)
        self._sessions = [*(each for each in self._sessions if each.id != session.id), session]

    async def listen(self) -> tuple[Listener, list[Finished], list[bool]]:
        """Return a listener, what it hears of endings, and its wake-ups."""
        finished: list[Finished] = []
        woken: list[bool] = []
        listener = await self.store.listen(lambda: woken.append(True), finished.append)
        self._listeners.append(listener)
        return listener, finished, woken

    async def heard(self, what: Sized, count: int) -> None:
        """So many things are heard, sooner or later, and no more."""
        deadline = time.monotonic() + PATIENCE
        while len(what) < count and time.monotonic() < deadline:  # noqa: ASYNC110 (a plain list has no event)
            await asyncio.sleep(0.001)
        await self.store.events(limit=1)  # whatever came before this round trip has been told by now
        assert len(what) == count, f"heard {what}, and not {count}"

    async def tick(self, seconds: float) -> None:
        """Time passes and the store is there all the while: some other worker is heard every few seconds."""
        if self._watchman is None:
            self._watchman = await self.session("the watchman's")
        while seconds > 0:
            step = min(seconds, 4.0)
            self.clock.advance(step)
            seconds -= step
            await self.store.extend(self._watchman)

    async def vanish(self, *sessions: Session, queue: str = QUEUE) -> Reaped:
        """The sessions were silent for longer than their lease while others were heard, and have been reaped."""
        await self.tick(max(session.lease_ms for session in sessions) / 1000 + 1)
        return await self.store.reap(queue, 1000)

    # --- jobs

    async def add(self, id: str, conflict: Conflict = KEEP, *, queue: str = QUEUE, **fields: Any) -> Answer:
        """Return the answer to one enqueue."""
        (answer,) = await self.store.enqueue(queue, [new(id, **fields)], conflict)
        return answer

    async def turn(
        self,
        session: Session,
        *settlements: Settlement,
        queues: Sequence[str] = (),
        room: int = 0,
        park: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        """Return what one call of a worker gives."""
        return await self.store.settle_and_claim(
            session, settlements, queues, room, park, held=held, only_suspects=only_suspects
        )

    async def claim(self, session: Session, room: int = 1, *queues: str) -> list[Claimed]:
        """Return what a worker with so much room gets."""
        return (await self.turn(session, queues=queues or session.queues, room=room)).claimed

    async def take(self, session: Session, id: str, **fields: Any) -> Claimed:
        """Return a new job that the session holds; no other is waiting."""
        await self.add(id, **fields)
        (claimed,) = await self.claim(session)
        assert claimed.lease.id == id
        return claimed

    async def settle(self, session: Session, settlement: Settlement) -> Settled:
        """Return the word for one settlement."""
        turn = await self.turn(session, settlement)
        assert not turn.evicted, "the session was evicted"
        return turn.settled[0]

    async def order(self, session: Session, room: int = 1000) -> list[str]:
        """Return the ids that a worker with this room gets, in order."""
        return [job.lease.id for job in await self.claim(session, room)]

    async def get(self, id: str, run: int | None = None, *, queue: str = QUEUE) -> JobRecord:
        """Return a job that is there."""
        job = await self.store.get(queue, id, run)
        assert job is not None, f"{id!r} is not there"
        return job

    async def state(self, id: str, *, queue: str = QUEUE) -> State | None:
        """Return where a job stands, `None` when it is not there."""
        job = await self.store.get(queue, id)
        return None if job is None else job.state

    async def declare(self, *, version: int = 0, queue: str = QUEUE, task: str = TASK, **policy: Any) -> None:
        """The task has this policy."""
        tasks = {task: msgspec.convert(policy, Policy)}
        await self.store.declare([Declaration(queue=queue, version=version, tasks=tasks)])

    async def events(self, id: str | None = None) -> list[Event]:
        """Return every event, or those of one id, from the beginning."""
        found: list[Event] = []
        position: str | None = None
        while True:
            page = await self.store.events(position, limit=500)
            if not page.events:
                return [event for event in found if id is None or event.id == id]
            found += page.events
            position = page.position

    async def told(self, id: str) -> list[str]:
        """Return the names of the transitions of an id, in order."""
        return [event.transition for event in await self.events(id) if event.transition != OPERATE]

    # --- the end

    async def replayed(self) -> None:
        """Check that the log, replayed, gives the store as it stands, unless a test has spoilt records."""
        if self.harness.spoilt:
            return
        if self._replay is None:
            self._replay = Replay(whole=self.harness.log_is_whole)
        self._read = await read(self.store, self._replay, self._read)
        jobs = [job for job in await listed(self.store) if (job.queue, job.id) not in self.harness.broken]
        self._replay.compare(jobs, besides=self.harness.broken)
        self._replay.check()

    async def counted(self) -> None:
        """Check that `queues` counts what is there. Expired runs are not listed, so they are removed first."""
        if self.harness.broken or self.harness.spoilt:
            await self.store.doctor()  # until somebody counts again, such a record counts as what it was
        for queue in await self.store.queues():
            while (await self.store.expire(queue.name, 1000)).more:
                pass
        there = Counter((job.queue, job.state) for job in await listed(self.store))
        for info in await self.store.queues():
            counts = {state: there[info.name, state] for state in State}
            assert info.counts == counts, f"{info.name} counts {info.counts}, and has {counts}"

    async def leftovers(self) -> Mapping[str, int]:
        """Return what remains after every job has been deleted or has expired, and every session has left."""
        await self._end_jobs()
        for session in self._sessions:
            await self.store.leave(session)
        self.clock.advance(100 * DAY)
        for _ in range(2):  # the second pass finds what the first set in motion
            for queue in await self.store.queues():
                while (await self.store.reap(queue.name, 1000)).more:
                    pass
                while (await self.store.expire(queue.name, 1000)).more:
                    pass
            self.clock.advance(100 * DAY)
        return await self.harness.leftovers(self.store)

    async def _end_jobs(self) -> None:
        unfinished = (State.BLOCKED, State.SCHEDULED, State.WAITING, State.ACTIVE)
        while page := (await self.store.jobs(Filter(states=unfinished), limit=500)).jobs:
            for job in page:
                await self.store.delete(job.queue, job.id)

    async def close(self) -> None:
        """Nothing is held open."""
        for listener in self._listeners:
            listener.close()
        for store in [*self._others, self.store]:
            await store.close()
        await self.harness.dispose(self.store)


def new(id: str, **fields: Any) -> NewJob:
    """Return a job to be taken in; its payload is its id unless it is given."""
    return NewJob(**{"id": id, "task": TASK, "payload": id.encode(), **fields})


def complete(claimed: Claimed | Lease, result: bytes = b"done", **fields: Any) -> Complete:
    """Return the settlement of a handler that returned."""
    return Complete(_lease(claimed), result, **fields)


def retry(
    claimed: Claimed | Lease, cause: Cause = Cause.FAILURE, error: ErrorRecord = ERROR, **own_time: int
) -> Retried:
    """Return the settlement of a handler that raised, perhaps with a time of its own, or ran out of time."""
    return Retried(_lease(claimed), error, cause, **own_time)


def fail(claimed: Claimed | Lease, error: ErrorRecord = ERROR, **fields: Any) -> Failed:
    """Return the settlement of a handler that gave up."""
    return Failed(_lease(claimed), error, **fields)


def snooze(claimed: Claimed | Lease, seconds: float = 60, **fields: Any) -> Snoozed:
    """Return the settlement of a handler that wants to run later."""
    return Snoozed(_lease(claimed), **(fields or {"delay_ms": round(seconds * 1000)}))


def release(claimed: Claimed | Lease, seconds: float = 0) -> Released:
    """Return the settlement of a worker that hands a job back."""
    return Released(_lease(claimed), round(seconds * 1000))


def stall(claimed: Claimed | Lease, company: int = 1) -> Released:
    """Return the settlement of a worker whose process died with the job, and with so many in all."""
    return Released(_lease(claimed), error=ERROR, cause=Cause.STALL, company=company)


def free(claimed: Claimed | Lease, seconds: float = 0) -> Released:
    """Return the settlement of a worker that hands a job back for a trouble of its own."""
    return Released(_lease(claimed), round(seconds * 1000), cause=Cause.WORKER)


def _lease(claimed: Claimed | Lease) -> Lease:
    return claimed if isinstance(claimed, Lease) else claimed.lease


FOREVER = Retry(failures=None, stalls=None, timeouts=None, releases=None)
"""No limit at all."""
AT_ONCE = Retry(initial=0, maximum=0)
"""The default limits, with no wait in between."""
