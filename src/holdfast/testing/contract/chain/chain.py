"""Chains: a job continues with the next in one step, in its own queue or in another."""

from __future__ import annotations

import asyncio

import pytest

from ....core.chain import ChainRef, continuation_id
from ....core.state import State
from ....core.transition import Reply
from ....store.contract import (
    Claimed,
    Complete,
    Conflict,
    Continuation,
    Filter,
    Session,
)
from ..bench import QUEUE, Bench, complete, fail, new
from ..case import Case

OTHER = "other"


class ChainCases(Case):
    """What a chain is, from its first job to its end."""

    async def test_a_job_continues_with_the_next_in_one_step(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        turn = await bench.turn(worker, then(first, task="next"), queues=(QUEUE,), room=1)
        (second,) = turn.claimed
        assert turn.settled[0].reply is Reply.OK
        assert (second.task, second.position, second.chain) == ("next", 1, ref(first))
        assert second.lease.id == continuation_id(ref(first), 1, QUEUE)
        before, after = await bench.get("j"), await bench.get(second.lease.id)
        assert (before.state, before.chain_state, before.result) == (State.COMPLETED, State.ACTIVE, None)
        assert before.continued
        assert (after.chain, after.position, after.state) == (ref(first), 1, State.ACTIVE)
        assert await bench.told("j") == ["enqueue", "claim", "complete"]
        assert await bench.told(second.lease.id) == ["enqueue", "claim"]

    async def test_a_chains_result_is_its_last_jobs(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        last = await go_on(bench, worker, first, steps=3)
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert (chain.state, chain.position, chain.finished_at_ms) == (State.ACTIVE, 3, None)
        assert chain.current == ChainRef(QUEUE, last.lease.id, last.lease.run)
        bench.clock.advance(5)
        await bench.settle(worker, complete(last, b"at last"))
        for id in ("j", last.lease.id):
            chain = await bench.store.chain(QUEUE, id)
            assert chain is not None
            assert (chain.ref, chain.state, chain.result) == (ref(first), State.COMPLETED, b"at last")
            assert (chain.position, chain.finished_at_ms) == (3, bench.now)
        job = await bench.get("j")
        assert (job.outcome, job.result, job.holds_id) == (State.COMPLETED, b"at last", True)
        assert job.expires_at_ms == bench.now + 3_600_000

    async def test_a_job_that_never_continued_is_a_chain_of_one(self, bench: Bench) -> None:
        worker = await bench.session()
        answer = await bench.add("j")
        chain = await bench.store.chain(QUEUE, "j", answer.run)
        assert chain is not None
        assert (chain.state, chain.ref, chain.current) == (State.WAITING, chain.current, chain.ref)
        (claimed,) = await bench.claim(worker)
        assert (claimed.chain, claimed.position) == (None, 0)
        await bench.settle(worker, complete(claimed, b"7"))
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert (chain.state, chain.result, chain.finished_at_ms) == (State.COMPLETED, b"7", bench.now)
        assert (await bench.store.chains(Filter())).chains == []
        assert await bench.store.chain(QUEUE, "nobody") is None

    async def test_a_chain_goes_through_other_queues_and_back(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        first = await bench.take(worker, "j")
        there = await go_on(bench, worker, first, queue=OTHER)
        assert there.lease.queue == OTHER
        again = await go_on(bench, worker, there, queue=OTHER)
        back = await go_on(bench, worker, again, queue=QUEUE)
        assert (back.lease.queue, back.position, back.chain) == (QUEUE, 3, ref(first))
        chain = await bench.store.chain(OTHER, again.lease.id)
        assert chain is not None
        assert (chain.ref, chain.current.id) == (ref(first), back.lease.id)
        await bench.settle(worker, complete(back, b"home"))
        assert (await bench.get("j")).result == b"home"

    async def test_many_chains_step_together(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(30)])
        claimed = await bench.claim(worker, 30)
        for _ in range(2):
            claimed = (await bench.turn(worker, *map(then, claimed), queues=(QUEUE,), room=30)).claimed
            assert len(claimed) == 30
        for job in claimed:
            enqueued, taken = (event for event in await bench.events(job.lease.id))
            assert (enqueued.transition, enqueued.state, enqueued.worker) == ("enqueue", State.WAITING, None)
            assert (taken.transition, taken.worker, taken.attempt, taken.task) == ("claim", worker.id, 1, "t")
        bench.clock.advance(2)
        mixed = [complete(job, b"done") if number % 2 else then(job) for number, job in enumerate(claimed)]
        turn = await bench.turn(worker, *mixed, queues=(QUEUE,), room=30)
        assert {settled.reply for settled in turn.settled} == {Reply.OK}
        assert len(turn.claimed) == 15
        states = [(await bench.get(f"j{number}")).outcome for number in range(30)]
        assert states.count(State.COMPLETED) == states.count(State.ACTIVE) == 15
        for job in claimed:
            ended = (await bench.events(job.lease.id))[-1]
            assert (ended.transition, ended.state, ended.worker) == ("complete", State.COMPLETED, worker.id)
            assert (ended.run_ms, ended.attempt, ended.wait_ms) == (2000, 1, None)
            record = await bench.get(job.lease.id)
            assert (record.finished_at_ms, record.expires_at_ms) == (bench.now, None), "it goes with its chain"
            assert (record.payload, record.chain, record.position) == (b"next", ref(job), 2)

    async def test_many_chains_step_together_from_queue_to_queue(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(20)])
        claimed = await bench.claim(worker, 20)
        for step, queue in enumerate((OTHER, QUEUE, OTHER), start=1):
            bench.clock.advance(2)
            steps = [then(job, queue=queue) for job in claimed]
            turn = await bench.turn(worker, *steps)
            assert {settled.reply for settled in turn.settled} == {Reply.OK}
            before, claimed = claimed, await bench.claim(worker, 20)
            assert [(job.lease.queue, job.position) for job in claimed] == [(queue, step)] * 20
            for job in claimed:
                chain = await bench.store.chain(job.lease.queue, job.lease.id)
                assert chain is not None
                assert (chain.ref, chain.current.id, chain.position) == (ref(job), job.lease.id, step)
            ended = (await bench.events(before[0].lease.id))[-1]
            assert (ended.transition, ended.state, ended.run_ms) == ("complete", State.COMPLETED, 2000)
        await bench.turn(worker, *(complete(job, job.lease.id.encode()) for job in claimed))
        for job in claimed:
            assert (await bench.get(ref(job).id)).result == job.lease.id.encode()

    @pytest.mark.parametrize("queue", [QUEUE, OTHER])
    async def test_a_worker_of_one_queue_continues_in_another(self, bench: Bench, queue: str) -> None:
        here, there = await bench.session(), await bench.session(OTHER)
        first = await bench.take(here, "j")
        await bench.settle(here, then(first, queue=OTHER))
        (second,) = await bench.claim(there)
        await bench.settle(there, then(second, queue=queue))
        (third,) = await bench.claim(here if queue == QUEUE else there)
        assert (third.position, third.chain) == (2, ref(first))
        await bench.settle(here if queue == QUEUE else there, complete(third, b"3"))
        assert (await bench.get("j")).result == b"3"

    async def test_a_deleted_chain_stays_gone_though_its_worker_goes_on(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        second = await go_on(bench, worker, await bench.take(worker, "j"), queue=OTHER)
        await bench.store.delete_chain(QUEUE, "j")
        assert (await bench.settle(worker, then(second, queue=QUEUE))).reply is Reply.MISSING
        assert (await bench.store.jobs(Filter())).jobs == []

    async def test_a_repeated_continuation_gives_one(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        for _ in range(3):
            settled = await bench.settle(worker, then(first))
            assert (settled.reply, settled.state) == (Reply.OK, State.COMPLETED)
        assert len(await bench.claim(worker, 10)) == 1

    async def test_a_zombie_does_not_continue(self, bench: Bench) -> None:
        zombie, worker = await bench.session(), await bench.session(lease_ms=3_600_000)
        first = await bench.take(zombie, "j")
        await bench.vanish(zombie)
        (again,) = await bench.claim(worker)
        assert (await bench.turn(zombie, then(first))).evicted
        second = await go_on(bench, worker, again)
        assert (second.position, await bench.claim(worker, 10)) == (1, [])

    async def test_raced_continuations_give_one(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        turns = await asyncio.gather(*(bench.turn(worker, then(first)) for _ in range(5)))
        assert {turn.settled[0].reply for turn in turns} == {Reply.OK}
        assert len(await bench.claim(worker, 10)) == 1

    async def test_an_id_that_somebody_else_has_does_not_stop_a_chain(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        taken = continuation_id(ref(first), 1, QUEUE)
        await bench.add(taken, delay_ms=60_000)
        second = await go_on(bench, worker, first)
        assert (second.lease.id != taken, second.position) == (True, 1)
        await bench.settle(worker, complete(second, b"2"))
        assert (await bench.get("j")).result == b"2"

    async def test_chains_that_go_on_with_one_id_have_a_job_each(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.enqueue(QUEUE, [new("a"), new("b")])
        claimed = (await bench.turn(worker, *map(then, await bench.claim(worker, 2)), queues=(QUEUE,), room=2)).claimed
        same = [Complete(job.lease, b"", then=Continuation(QUEUE, new("same"))) for job in claimed]
        claimed = (await bench.turn(worker, *same, queues=(QUEUE,), room=2)).claimed
        assert sorted(job.position for job in claimed) == [2, 2]
        assert len({job.lease.id for job in claimed}) == 2
        await bench.turn(worker, *(complete(job, ref(job).id.encode()) for job in claimed))
        assert [(await bench.get(id)).result for id in "ab"] == [b"a", b"b"]

    async def test_a_chain_fails_with_its_last_job(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.settle(worker, fail(second))
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert (chain.state, chain.error and chain.error.type) == (State.FAILED, "ValueError")
        answer = await bench.add("j")
        assert (answer.status, answer.state, answer.error and answer.error.type) == (
            "duplicate",
            "failed",
            "ValueError",
        )
        anew = await bench.add("j", Conflict(on_failed="requeue"))
        assert (anew.status, anew.run != chain.ref.run) == ("requeued", True)
        assert (await bench.get("j")).chain is None

    async def test_a_chain_is_cancelled_with_its_current_job(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        await bench.settle(worker, then(first, delay_ms=5000))
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert chain.state is State.SCHEDULED
        assert (await bench.store.cancel(QUEUE, chain.current.id)).reply is Reply.OK
        ended = await bench.store.chain(QUEUE, "j", first.lease.run)
        assert ended is not None
        assert ended.state is State.CANCELLED
        assert (await bench.add("j")).status == "queued", "the id of a cancelled chain is free at once"

    async def test_a_chain_is_reaped_and_goes_on(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.vanish(worker)
        other = await bench.session()
        (again,) = await bench.claim(other)
        assert (again.lease.id, again.position, again.chain) == (second.lease.id, 1, second.chain)
        await bench.settle(other, complete(again, b"2"))
        assert (await bench.get("j")).result == b"2"

    async def test_a_lost_claim_of_a_later_job_is_found_again(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        (held,) = await bench.store.held(worker)
        assert (held.chain, held.position) == (second.chain, 1)


def ref(claimed: Claimed) -> ChainRef:
    """Return the chain of a claimed job."""
    lease = claimed.lease
    return claimed.chain or ChainRef(lease.queue, lease.id, lease.run)


def then(claimed: Claimed, *, queue: str | None = None, **fields: object) -> Complete:
    """Return the settlement of a handler that continues."""
    where = queue or claimed.lease.queue
    id = continuation_id(ref(claimed), claimed.position + 1, where)
    return Complete(claimed.lease, b"", then=Continuation(where, new(id, **{"payload": b"next", **fields})))


async def go_on(
    bench: Bench, worker: Session, claimed: Claimed, *, steps: int = 1, queue: str | None = None, **fields: object
) -> Claimed:
    """Return the job that a chain continued with, so many steps further, held by the worker; no other is waiting."""
    for _ in range(steps):
        settlement = then(claimed, queue=queue, **fields)
        assert (await bench.settle(worker, settlement)).reply is Reply.OK
        (claimed,) = await bench.claim(worker)
    return claimed
