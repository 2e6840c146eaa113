"""Chains: a job continues with the next in one step, and everything that hangs at its end hangs at the chain's."""

from __future__ import annotations

import asyncio

from ...core.chain import ChainRef, continuation_id
from ...core.policy import Policy
from ...core.state import State
from ...core.transition import Reply
from ...store.contract import (
    Claimed,
    Complete,
    Conflict,
    Continuation,
    Declaration,
    DedupSpec,
    Filter,
    Finished,
    Session,
)
from .bench import DAY, QUEUE, UPDATE, Bench, complete, fail, new, release
from .case import Case

OTHER = "other"


class Chains(Case):
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
            assert (record.finished_at_ms, record.expires_at_ms) == (bench.now, bench.now + 3_600_000)
            assert (record.payload, record.chain, record.position) == (b"next", ref(job), 2)

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

    # --- everything hangs at the chain's end

    async def test_an_open_chain_holds_its_id(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.tick(2 * 3600)
        await bench.store.expire(QUEUE)
        answer = await bench.add("j")
        assert (answer.status, answer.state, answer.run) == (
            "duplicate",
            State.ACTIVE,
            second.chain and second.chain.run,
        )
        await bench.store.settle_and_claim(worker, [complete(second, b"2")], [], 0)

    async def test_a_finished_chain_answers_from_its_result(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.settle(worker, complete(second, b"2"))
        answer = await bench.add("j")
        assert (answer.status, answer.state, answer.result) == ("completed", State.COMPLETED, b"2")
        await bench.tick(3600)
        assert (await bench.add("j")).status == "queued"

    async def test_whoever_waits_for_a_first_job_hears_of_the_chains_end(self, bench: Bench) -> None:
        worker = await bench.session()
        listener, finished, _ = await bench.listen()
        first = await bench.take(worker, "j", watcher=listener.address)
        second = await go_on(bench, worker, first)
        assert await bench.store.watch(listener, QUEUE, "j", first.lease.run)
        await bench.settle(worker, complete(second, b"2"))
        await bench.heard(finished, 1)
        assert finished == [Finished(QUEUE, "j", first.lease.run, State.COMPLETED)]
        assert not await bench.store.watch(listener, QUEUE, "j", first.lease.run)

    async def test_whoever_waits_for_a_later_job_hears_when_it_continues(self, bench: Bench) -> None:
        worker = await bench.session()
        listener, finished, _ = await bench.listen()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        assert await bench.store.watch(listener, QUEUE, second.lease.id, second.lease.run)
        await go_on(bench, worker, second)
        await bench.heard(finished, 1)
        assert (await bench.get(second.lease.id)).continued

    async def test_a_successor_starts_when_the_chain_is_over(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        assert (await bench.add("j", UPDATE, payload=b"again")).status == "successor"
        second = await go_on(bench, worker, first)
        later = await bench.add("j", UPDATE, payload=b"once more")
        assert (later.status, await bench.claim(worker, 10)) == ("successor", [])
        await bench.settle(worker, complete(second))
        (successor,) = await bench.claim(worker, 10)
        assert (successor.payload, successor.chain, successor.lease.run) == (b"once more", None, later.run)

    async def test_update_of_a_later_job_is_refused(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        await bench.settle(worker, then(first))
        id = continuation_id(ref(first), 1, QUEUE)
        answer = await bench.add(id, UPDATE, payload=b"other")
        assert answer.status == "refused"
        assert (await bench.get(id)).payload == b"next"

    async def test_dedup_looks_at_the_whole_chain(self, bench: Bench) -> None:
        worker = await bench.session()
        spec = DedupSpec(key="k")
        second = await go_on(bench, worker, await bench.take(worker, "j", dedup=spec))
        answer = await bench.add("i", dedup=spec)
        assert (answer.status, answer.id, answer.state) == ("duplicate", "j", State.ACTIVE)
        await bench.settle(worker, complete(second, b"2"))
        answer = await bench.add("i", dedup=DedupSpec(key="k", scope="any"))
        assert (answer.status, answer.id, answer.result) == ("completed", "j", b"2")
        assert (await bench.add("i", dedup=spec)).status == "queued"

    async def test_a_chain_expires_as_a_whole(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        await bench.store.configure(OTHER, {"result_ttl_ms": round(40 * DAY * 1000)})
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first, queue=OTHER)
        await bench.settle(worker, complete(second, b"2"))
        await bench.tick(3601)
        for queue in (QUEUE, OTHER, QUEUE, OTHER):
            await bench.store.expire(queue)
        assert await bench.store.get(QUEUE, "j") is None
        assert await bench.store.get(OTHER, second.lease.id) is None

    async def test_a_result_ttl_set_meanwhile_counts_from_the_chains_end(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        assert await bench.store.set_result_ttl(QUEUE, "j", 60_000) is Reply.OK
        await bench.tick(100)
        assert (await bench.add("j")).status == "duplicate"
        await bench.settle(worker, complete(second, b"2"))
        assert (await bench.get("j")).expires_at_ms == bench.now + 60_000

    async def test_a_fail_handler_is_for_the_job_that_failed(self, bench: Bench) -> None:
        await bench.store.declare([Declaration(queue=QUEUE, tasks={"next": Policy(on_failure=(QUEUE, "mourn"))})])
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"), task="next")
        await bench.settle(worker, fail(second))
        (handler,) = await bench.claim(worker)
        assert (handler.task, handler.chain) == ("mourn", None)

    # --- running anew

    async def test_a_dead_letter_of_a_chain_goes_on_where_it_failed(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first)
        await bench.settle(worker, fail(second))
        ((queue, id, _),) = await bench.store.requeue(Filter(queue=QUEUE))
        assert (queue, id) == (QUEUE, second.lease.id)
        (again,) = await bench.claim(worker)
        assert (again.chain, again.position) == (ref(first), 1)
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert chain.state is State.ACTIVE
        await bench.settle(worker, complete(again, b"at last"))
        assert ((await bench.get("j")).outcome, (await bench.get("j")).result) == (State.COMPLETED, b"at last")

    async def test_only_the_end_of_a_chain_runs_anew(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first)
        third = await go_on(bench, worker, second)
        every = Filter(queue=QUEUE, states=(State.COMPLETED, State.FAILED, State.CANCELLED))
        assert await bench.store.requeue(every) == []
        await bench.settle(worker, complete(third))
        started = await bench.store.requeue(Filter(queue=QUEUE, ids=("j",), states=(State.COMPLETED,)))
        assert [id for _, id, _ in started] == ["j"]
        (anew,) = await bench.claim(worker)
        assert (anew.payload, anew.chain) == (b"j", None)

    # --- from outside

    async def test_a_chain_is_completed_from_outside(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first)
        assert await bench.store.complete_chain(QUEUE, "j", first.lease.run, b"approved") is Reply.OK
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert (chain.state, chain.result) == (State.COMPLETED, b"approved")
        (event,) = [event for event in await bench.events(second.lease.id) if event.transition == "complete"]
        assert (event.cause, event.state) == ("outside", State.COMPLETED)
        aborts = (await bench.store.extend(worker)).aborts
        assert aborts == [(second.lease, "completed_elsewhere")]
        assert (await bench.settle(worker, complete(second))).reply is Reply.STALE
        assert (await bench.store.extend(worker)).aborts == []
        assert (await bench.store.chain(QUEUE, "j")) == chain

    async def test_a_chain_is_completed_from_outside_while_nobody_works_on_it(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, then(await bench.take(worker, "j"), delay_ms=60_000))
        assert await bench.store.complete_chain(QUEUE, "j", None, b"approved") is Reply.OK
        assert (await bench.get("j")).result == b"approved"
        await bench.tick(61)
        assert await bench.claim(worker, 10) == []
        assert await bench.store.complete_chain(QUEUE, "j", None, b"twice") is Reply.WRONG_STATE
        assert await bench.store.complete_chain(QUEUE, "nobody", None, b"") is Reply.MISSING

    async def test_a_repeat_of_a_completion_from_outside_gets_the_first_answer(self, bench: Bench) -> None:
        await bench.add("j")
        for _ in range(2):
            assert await bench.store.complete_chain(QUEUE, "j", None, b"1", request="r") is Reply.OK
        assert await bench.told("j") == ["enqueue", "complete"]

    async def test_completion_from_outside_frees_the_room_that_was_taken(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        worker = await bench.session()
        await bench.take(worker, "j", key="k")
        await bench.add("next", key="k")
        assert await bench.claim(worker) == []
        await bench.store.complete_chain(QUEUE, "j", None, b"1")
        assert await bench.order(worker) == ["next"]

    async def test_one_of_many_completes_from_outside(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        words = await asyncio.gather(
            *(bench.store.complete_chain(QUEUE, "j", None, str(number).encode()) for number in range(5)),
            bench.turn(worker, then(first)),
        )
        assert words[:5].count(Reply.OK) == 1

    # --- looking and deleting

    async def test_chains_are_listed(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        for number in range(3):
            await go_on(bench, worker, await bench.take(worker, f"j{number}"), queue=OTHER)
        await bench.add("plain", delay_ms=60_000)
        found = (await bench.store.chains(Filter())).chains
        assert [chain.ref.id for chain in found] == ["j2", "j1", "j0"]
        page = await bench.store.chains(Filter(queue=QUEUE, states=(State.ACTIVE,)), limit=2)
        assert [chain.ref.id for chain in page.chains] == ["j2", "j1"]
        page = await bench.store.chains(Filter(queue=QUEUE), limit=2, cursor=page.cursor)
        assert ([chain.ref.id for chain in page.chains], page.cursor) == (["j0"], None)
        assert (await bench.store.chains(Filter(queue=OTHER))).chains == []
        members = (await bench.store.jobs(Filter(chain=found[0].ref))).jobs
        assert sorted(job.position for job in members) == [0, 1]

    async def test_a_chain_is_deleted_as_a_whole(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        second = await go_on(bench, worker, await bench.take(worker, "j"), queue=OTHER)
        third = await go_on(bench, worker, second, queue=OTHER)
        deleted = await bench.store.delete_chain(QUEUE, "j")
        assert (deleted.reply, deleted.chains) == (Reply.OK, 1)
        assert (await bench.store.jobs(Filter())).jobs == []
        assert (await bench.store.extend(worker)).aborts == [(third.lease, "deleted")]
        assert (await bench.settle(worker, then(third))).reply is Reply.MISSING
        assert (await bench.store.delete_chain(QUEUE, "j")).reply is Reply.MISSING

    async def test_deleting_the_current_job_ends_its_chain(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first)
        assert await bench.store.delete(QUEUE, second.lease.id) is Reply.OK
        chain = await bench.store.chain(QUEUE, "j", first.lease.run)
        assert chain is not None
        assert chain.state is State.CANCELLED
        assert (await bench.add("j")).status == "queued"

    async def test_a_later_job_that_is_released_stays_in_its_chain(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.settle(worker, release(second))
        (again,) = await bench.claim(worker)
        assert (again.chain, again.position, again.lease.attempt) == (second.chain, 1, 2)


def ref(claimed: Claimed) -> ChainRef:
    """Return the chain of a job that somebody holds."""
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
