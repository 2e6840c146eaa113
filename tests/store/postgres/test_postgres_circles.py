"""Our own transactions never wait for each other in a circle: flows begin while workers end what they wait for, and
everything that can be done to a job is done to the same few, by many at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import LEAN, PostgresServer
from support import PATIENCE, working

from holdfast import Continued, Holdfast, Job, State
from holdfast.core.chain import BlockerRef, ChainRef, continuation_id
from holdfast.core.job import ErrorRecord
from holdfast.store.contract import (
    Claimed,
    Complete,
    Conflict,
    Continuation,
    Failed,
    Filter,
    NewJob,
    Released,
    Retried,
    Running,
    Session,
    Settlement,
    Snoozed,
)
from holdfast.store.postgres import PostgresStore

WIDE, PARTS, FLOWS = 200, 4, 4
SECONDS = 6.0
QUEUES = ("plain", "other", "keyed")
IDS = [f"j{number}" for number in range(8)]
ENDS = (State.COMPLETED, State.FAILED, State.CANCELLED)
CALLS = (
    "enqueue", "enqueue", "enqueue", "call", "wait_for", "cancel", "delete", "complete_chain", "delete_chain",
    "requeue", "reap", "expire", "steer", "promote",
)  # fmt: skip
RUNNING: tuple[Running, ...] = ("refuse", "signal")
CONFLICTS = (
    Conflict(), Conflict(on_conflict="update"), Conflict(on_failed="requeue"),
    Conflict(on_conflict="update", on_failed="requeue"),
)  # fmt: skip
NOBODY = "hf_00:1"
"""An address at which nobody hears."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, which counts nobody else's deadlocks, and finds each soon."""
    server = PostgresServer((*LEAN, "deadlock_timeout=50ms"))
    server.start()
    yield server
    server.close()


def make(url: str) -> Holdfast:
    app = Holdfast(url)

    @app.task(queue="m")
    async def square(n: int) -> int:
        return n * n

    @app.task(queue="m")
    async def begin(job: Job, n: int) -> Continued[int]:
        return job.continue_with(square, n)

    @app.task(queue="f")
    async def total(job: Job) -> int:
        return sum([each.result for each in await job.blockers()])

    return app


async def test_fan_ins_of_chains_that_begin_while_workers_run_meet_no_deadlock(server: PostgresServer) -> None:
    app, *others = (make(server.url("circles")) for _ in range(4))
    begin, total = app.registry.tasks["begin"], app.registry.tasks["total"]
    async with app, working(others[0], slots=50), working(others[1], slots=50), working(others[2], slots=50):

        async def one(number: int) -> None:
            flow = app.flow(f"f{number}")
            members = flow.map(begin, range(WIDE))
            sums = [flow.add(total.args(), after=members[part::PARTS]) for part in range(PARTS)]
            flow.add(total.args(), after=sums, name="all")
            await flow.start(chunk=50)
            assert await flow.result("all", PATIENCE * 4) == sum(n * n for n in range(WIDE))

        await asyncio.gather(*(one(number) for number in range(FLOWS)))
    assert deadlocks(server) == 0, server.log[-8000:]


def deadlocks(server: PostgresServer) -> int:
    with psycopg.connect(server.url().partition("?")[0]) as connection:
        found = connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone()
    assert found is not None
    return int(found[0])


def told_of_deadlocks(log: str) -> str:
    """Return what the server says of each: who waited for whom, and in which functions."""
    return "\n...\n".join(part[:6000] for part in log.split("ERROR:  deadlock detected")[1:])


# --- everything at once


class Somebody:
    """Does things to jobs, by chance, until the time is over."""

    def __init__(self, store: PostgresStore, number: int, until: float, done: Counter[str]) -> None:
        self.store = store
        self.number = number
        self.chance = random.Random(number)
        self.until = until
        self.done = done

    async def act(self) -> None:
        while time.monotonic() < self.until:
            name = self.chance.choice(CALLS)
            await getattr(self, name)()
            self.done[name] += 1

    @property
    def queue(self) -> str:
        return self.chance.choice(QUEUES)

    @property
    def id(self) -> str:
        return self.chance.choice(IDS)

    def job(self, queue: str, id: str, **fields: Any) -> NewJob:
        key = self.chance.choice("abc") if queue == "keyed" else None
        return NewJob(id=id, task="t", payload=b"1", key=key, result_ttl_ms=200, **fields)

    async def enqueue(self) -> None:
        queue, ids = self.queue, self.chance.sample(IDS, 5)
        await self.store.enqueue(queue, [self.job(queue, id) for id in ids], self.chance.choice(CONFLICTS))

    async def call(self) -> None:
        queue = self.queue
        await self.store.enqueue(queue, [self.job(queue, self.id, watcher=NOBODY)])

    async def wait_for(self) -> None:
        queue = self.queue
        number = self.chance.randrange(1, 20)
        refs = [BlockerRef(self.queue, self.id) for _ in range(2)]
        refs += [BlockerRef(each, f"b{self.chance.randrange(number)}") for each in QUEUES]
        policy = self.chance.choice(["fail", "cancel", "ignore"])
        job = self.job(queue, f"b{number}", blockers=tuple(dict.fromkeys(refs)), on_blocker_failed=policy)
        await self.store.enqueue(queue, [job])

    async def cancel(self) -> None:
        await self.store.cancel(self.queue, self.id, self.chance.choice(RUNNING))

    async def delete(self) -> None:
        await self.store.delete(self.queue, self.id)

    async def complete_chain(self) -> None:
        await self.store.complete_chain(self.queue, self.id, None, b"outside")

    async def delete_chain(self) -> None:
        await self.store.delete_chain(self.queue, self.id, cascade=self.chance.random() < 0.5)

    async def requeue(self) -> None:
        queue = self.chance.choice([None, *QUEUES])
        await self.store.requeue(Filter(queue=queue, states=ENDS), limit=10)

    async def reap(self) -> None:
        await self.store.reap(self.queue)

    async def expire(self) -> None:
        await self.store.expire(self.queue)

    async def steer(self) -> None:
        await self.store.limit_key("keyed", self.chance.choice("abc"), self.chance.choice([None, 2, 5]))

    async def promote(self) -> None:
        await self.store.promote(self.queue, self.id)


class Someworker(Somebody):
    """Claims and settles, with two turns at a time; now and then it vanishes."""

    async def act(self) -> None:
        for life in range(1000):
            if time.monotonic() > self.until:
                return
            served = QUEUES if self.number % 4 == 0 else QUEUES[:2]  # a queue with keys lets in one at a time
            session = Session(
                id=f"{self.number}-{life}", name="w", host="-", pid=0, queues=served, lease_ms=600, address=NOBODY
            )
            await self.store.register(session)
            await asyncio.gather(self.turns(session), self.turns(session))

    async def turns(self, session: Session) -> None:
        claimed: list[Claimed] = []
        for _ in range(20):
            queues = self.chance.sample(session.queues, 2)
            settlements = [self.settlement(job) for job in claimed]
            turn = await self.store.settle_and_claim(session, settlements, queues, 4, park=True)
            self.done["turn"] += 1
            if turn.evicted or time.monotonic() > self.until:
                return
            claimed = turn.claimed

    def settlement(self, job: Claimed) -> Settlement:
        error = ErrorRecord(type="Oops", message="x")
        kind = self.chance.randrange(12)
        if kind < 4:
            return Complete(job.lease, b"1")
        if kind < 8:
            return Complete(job.lease, b"", then=self.next(job))
        ends: list[Settlement] = [
            Retried(job.lease, error), Failed(job.lease, error), Released(job.lease), Snoozed(job.lease, delay_ms=0),
        ]  # fmt: skip
        return ends[kind - 8]

    def next(self, job: Claimed) -> Continuation:
        queue = self.queue
        chain = job.chain or ChainRef(job.lease.queue, job.lease.id, job.lease.run)
        return Continuation(queue, self.job(queue, continuation_id(chain, job.position + 1, queue)))


async def test_whatever_is_done_to_the_same_few_jobs_meets_no_deadlock(server: PostgresServer) -> None:
    stores = [PostgresStore(server.url("pairs")) for _ in range(4)]
    for store in stores:
        await store.open()
    done: Counter[str] = Counter()
    until = time.monotonic() + SECONDS
    kinds: list[type[Somebody]] = [Somebody] * 8 + [Someworker] * 8
    people = [kind(stores[number % 4], number, until, done) for number, kind in enumerate(kinds)]
    try:
        await asyncio.gather(*(each.act() for each in people))
    finally:
        for store in stores:
            await store.close()
    assert deadlocks(server) == 0, f"{done}\n{told_of_deadlocks(server.log)}"
    assert set(done) == {*CALLS, "turn"}
