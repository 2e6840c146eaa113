"""Blockers: a job that waits for others, their results in order, and what becomes of it when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ....core.chain import BlockerRef, ChainRef
from ....core.policy import Policy
from ....core.state import State
from ....core.transition import Reply
from ....store.contract import Claimed, Declaration, Filter, Settlement
from ..bench import QUEUE, UPDATE, Bench, carrying, complete, fail, new
from ..case import Case
from .chain import go_on, then

THERE = "there"
WIDE = 300


def on(*ids: str, queue: str = THERE) -> tuple[BlockerRef, ...]:
    """Return blockers by id."""
    return tuple(BlockerRef(queue, id) for id in ids)


class BlockerCases(Case):
    """What `blocked` means, in one queue and across two."""

    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    async def test_a_job_starts_when_its_last_blocker_is_done(self, bench: Bench, queue: str) -> None:
        worker = await bench.session(queue)
        await bench.add("a", queue=queue, task="one")
        await bench.add("b", queue=queue, task="two")
        answer = await bench.add("j", blockers=on("a", "b", queue=queue))
        assert (answer.status, answer.state) == ("queued", State.BLOCKED)
        assert (await bench.get("j")).blockers == 2
        first, second = await bench.claim(worker, 2)
        bench.clock.advance(3)
        await bench.settle(worker, complete(second, b"B"))
        assert await bench.state("j") is State.BLOCKED
        await bench.settle(worker, complete(first, b"A"))
        job = await bench.get("j")
        assert (job.state, job.run_at_ms, job.blockers) == (State.WAITING, bench.now, 0)
        assert await bench.told("j") == ["enqueue", "unblock"]
        found = await bench.store.blockers(QUEUE, "j", answer.run)
        assert [(each.ref.id, each.result, each.task, each.queue) for each in found] == [
            ("a", b"A", "one", queue),
            ("b", b"B", "two", queue),
        ]

    async def test_results_stay_with_whoever_waited(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        answer = await bench.add("j", blockers=on("a"), delay_ms=10_000_000)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed, b"A"))
        assert await bench.state("j") is State.SCHEDULED
        await bench.tick(3601)
        await bench.store.expire(THERE)
        assert await bench.store.get(THERE, "a") is None
        (blocker,) = await bench.store.blockers(QUEUE, "j", answer.run)
        assert (blocker.state, blocker.result) == (State.COMPLETED, b"A")

    async def test_what_is_complete_already_does_not_block(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed, b"A"))
        answer = await bench.add("j", blockers=on("a"))
        assert answer.state is State.WAITING
        assert await bench.state("j") is State.WAITING
        (blocker,) = await bench.store.blockers(QUEUE, "j", answer.run)
        assert blocker.result == b"A"

    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    @pytest.mark.parametrize("request_id", [None, "once"])
    async def test_the_answer_says_whether_a_job_waits_for_others(
        self, bench: Bench, queue: str, request_id: str | None
    ) -> None:
        worker = await bench.session(queue)
        for id in ("done", "failed", "open"):
            await bench.add(id, queue=queue)
        done, failed, _ = await bench.claim(worker, 3)
        await bench.turn(worker, complete(done), fail(failed))
        jobs = [
            new("at once", blockers=on("done", "done", queue=queue)),
            new("later", blockers=on("done", queue=queue), delay_ms=60_000),
            new("blocked", blockers=on("done", "open", queue=queue)),
            new("lost", blockers=on("failed", queue=queue)),
            new("given up", blockers=on("failed", queue=queue), on_blocker_failed="cancel"),
            new("careless", blockers=on("failed", queue=queue), on_blocker_failed="ignore"),
            new("free"),
        ]
        answers = await bench.store.enqueue(QUEUE, jobs, request=request_id)
        assert [(answer.status, answer.state.value) for answer in answers] == [
            ("queued", "waiting"), ("queued", "scheduled"), ("queued", "blocked"), ("queued", "failed"),
            ("queued", "cancelled"), ("queued", "waiting"), ("queued", "waiting"),
        ]  # fmt: skip
        assert [answer.state for answer in answers] == [await bench.state(job.id) for job in jobs]
        told = [answer.error and (answer.error.type, answer.error.fields["id"]) for answer in answers]
        assert told == [None, None, None, ("BlockerFailed", "failed"), None, None, None]
        again = await bench.store.enqueue(QUEUE, jobs[:3])
        assert [(answer.status, answer.state) for answer in again] == [
            ("duplicate", State.WAITING), ("duplicate", State.SCHEDULED), ("duplicate", State.BLOCKED),
        ]  # fmt: skip

    async def test_a_blocked_job_waits_for_its_own_time_as_well(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"), delay_ms=60_000)
        due = bench.now + 60_000
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        job = await bench.get("j")
        assert (job.state, job.run_at_ms) == (State.SCHEDULED, due)

    async def test_a_chain_blocks_until_it_is_over(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        (first,) = await bench.claim(worker)
        second = await go_on(bench, worker, first, task="last")
        assert await bench.state("j") is State.BLOCKED
        later = await bench.add("i", blockers=on("a"))
        assert later.state is State.BLOCKED
        await bench.settle(worker, complete(second, b"end"))
        for id in ("j", "i"):
            job = await bench.get(id)
            (blocker,) = await bench.store.blockers(QUEUE, id, job.run)
            assert (job.state, blocker.result, blocker.task) == (State.WAITING, b"end", "last")

    async def test_a_continuation_may_have_blockers(self, bench: Bench) -> None:
        worker, other = await bench.session(), await bench.session(THERE)
        first = await bench.take(worker, "j")
        await bench.add("a", queue=THERE)
        await bench.settle(worker, then(first, blockers=on("a")))
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert chain.state is State.BLOCKED
        (claimed,) = await bench.claim(other)
        await bench.settle(other, complete(claimed, b"A"))
        (second,) = await bench.claim(worker)
        (blocker,) = await bench.store.blockers(QUEUE, second.lease.id, second.lease.run)
        assert (second.position, blocker.result) == (1, b"A")

    async def test_a_blocker_of_its_own_run(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        answer = await bench.add("a", queue=THERE)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed, b"first"))
        await bench.store.requeue(Filter(queue=THERE, states=(State.COMPLETED,)))
        await bench.add("i", blockers=(BlockerRef(THERE, "a", answer.run),))
        await bench.add("j", blockers=on("a"))
        await settled(bench, "i", State.WAITING)
        assert await bench.state("j") is State.BLOCKED

    async def test_a_successor_may_be_waited_for(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        (first,) = await bench.claim(worker)
        answer = await bench.add("a", UPDATE, queue=THERE)
        await bench.add("j", blockers=(BlockerRef(THERE, "a", answer.run),))
        await bench.settle(worker, complete(first))
        assert await bench.state("j") is State.BLOCKED
        (second,) = await bench.claim(worker)
        await bench.settle(worker, complete(second))
        assert await bench.state("j") is State.WAITING

    # --- policy

    @pytest.mark.parametrize("policy", ["fail", "cancel", "ignore"])
    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    @pytest.mark.parametrize("late", [False, True])
    async def test_a_failed_blocker_follows_the_policy(self, bench: Bench, policy: str, queue: str, late: bool) -> None:
        worker = await bench.session(queue)
        await bench.add("a", queue=queue)
        (claimed,) = await bench.claim(worker)
        if late:
            await bench.settle(worker, fail(claimed))
        await bench.add("j", blockers=on("a", queue=queue), on_blocker_failed=policy)
        if not late:
            await bench.settle(worker, fail(claimed))
        await _follows(bench, policy)

    @pytest.mark.parametrize("policy", ["fail", "cancel", "ignore"])
    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    @pytest.mark.parametrize("gone", [False, True])
    async def test_a_blocker_that_never_ran_follows_the_policy(
        self, bench: Bench, policy: str, queue: str, gone: bool
    ) -> None:
        await bench.add("a", queue=queue)
        await bench.add("j", blockers=on("a", queue=queue), on_blocker_failed=policy)
        await (bench.store.delete if gone else bench.store.cancel)(queue, "a")
        await _follows(bench, policy)

    @pytest.mark.parametrize("policy", ["fail", "cancel", "ignore"])
    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    async def test_a_missing_blocker_follows_the_policy(self, bench: Bench, policy: str, queue: str) -> None:
        await bench.add("j", blockers=on("nobody", queue=queue), on_blocker_failed=policy)
        await _follows(bench, policy)

    async def test_a_failed_blocker_names_itself(self, bench: Bench) -> None:
        await bench.store.declare([Declaration(queue=QUEUE, tasks={"t": Policy(on_failure=(QUEUE, "mourn"))})])
        worker = await bench.session()
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        await bench.store.cancel(THERE, "a")
        job = await bench.get("j")
        assert job.error is not None
        assert (job.error.type, job.error.fields) == ("BlockerFailed", {"queue": THERE, "id": "a"})
        assert job.error.message == f"it waited for '{THERE}/a', which did not complete"
        (event,) = [event for event in await bench.events("j") if event.transition == "fail"]
        assert (event.cause, event.error_type, event.run_ms, event.worker) == ("blocker", "BlockerFailed", None, None)
        assert event.error_signature == job.error.signature
        (handler,) = await bench.claim(worker)
        assert handler.task == "mourn"

    async def test_a_failure_goes_down_a_line_of_blockers(self, bench: Bench) -> None:
        await bench.add("j0")
        for number in range(1, 50):
            await bench.add(f"j{number}", blockers=on(f"j{number - 1}", queue=QUEUE))
        await bench.store.cancel(QUEUE, "j0")
        assert await bench.state("j49") is State.FAILED

    async def test_a_requeued_job_waits_again_for_what_failed(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        await bench.add("b", queue=THERE)
        await bench.add("j", blockers=on("a", "b"))
        first, second = await bench.claim(worker, 2)
        await bench.settle(worker, complete(first, b"A"))
        await bench.settle(worker, fail(second))
        assert await bench.state("j") is State.FAILED
        await bench.store.requeue(Filter(queue=THERE))
        await bench.store.requeue(Filter(queue=QUEUE))
        await settled(bench, "j", State.BLOCKED)
        (again,) = await bench.claim(worker)
        await bench.settle(worker, complete(again, b"B"))
        job = await bench.get("j")
        results = [each.result for each in await bench.store.blockers(QUEUE, "j", job.run)]
        assert (job.state, results) == (State.WAITING, [b"A", b"B"])

    # --- a blocked job is a job

    async def test_a_blocked_job_is_cancelled_and_forgotten(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        assert (await bench.store.cancel(QUEUE, "j")).state is State.BLOCKED
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        assert await bench.state("j") is State.CANCELLED

    async def test_a_blocked_job_is_completed_from_outside(self, bench: Bench) -> None:
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        assert await bench.store.complete_chain(QUEUE, "j", None, b"never mind") is Reply.OK
        await bench.store.cancel(THERE, "a")
        assert (await bench.get("j")).result == b"never mind"

    async def test_a_blocked_job_is_updated_and_stays_blocked(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        answer = await bench.add("j", UPDATE, payload=b"new")
        assert (answer.status, answer.state) == ("updated", State.BLOCKED)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        job = await bench.get("j")
        assert (job.state, job.payload) == (State.WAITING, b"new")

    async def test_a_blocked_job_with_a_key_takes_its_turn_when_it_may(self, bench: Bench) -> None:
        worker = await bench.session(THERE, QUEUE)
        await bench.add("a", queue=THERE)
        await bench.add("j", key="k", blockers=on("a"))
        (claimed,) = await bench.claim(worker, 5)
        turn = await bench.turn(worker, complete(claimed), queues=(QUEUE,), room=5)
        assert [job.lease.id for job in turn.claimed] in (["j"], [])
        if not turn.claimed:
            assert await bench.order(worker) == ["j"]

    async def test_unblocking_wakes_a_parked_worker(self, bench: Bench) -> None:
        listener, _, woken = await bench.listen()
        worker, sleeper = await bench.session(THERE), await bench.session(address=listener.address)
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        await bench.turn(sleeper, queues=(QUEUE,), room=1, park=True)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        await bench.heard(woken, 1)

    # --- deleting

    async def test_a_chain_that_is_waited_for_is_not_deleted(self, bench: Bench) -> None:
        await bench.add("a", queue=THERE)
        answer = await bench.add("j", blockers=on("a"))
        deleted = await bench.store.delete_chain(THERE, "a")
        assert deleted.reply is Reply.WRONG_STATE
        assert deleted.waiting == (ChainRef(QUEUE, "j", answer.run),)
        assert await bench.state("a", queue=THERE) is State.WAITING

    async def test_cascade_deletes_those_that_wait_as_well(self, bench: Bench) -> None:
        await bench.add("a", queue=THERE)
        await bench.add("j", blockers=on("a"))
        await bench.add("i", blockers=on("j", queue=QUEUE))
        deleted = await bench.store.delete_chain(THERE, "a", cascade=True)
        assert deleted.reply is Reply.OK
        assert (await bench.store.jobs(Filter())).jobs == []

    # --- wide, and raced

    async def test_a_wide_fan_in(self, bench: Bench) -> None:
        worker = await bench.session(THERE)
        await bench.store.enqueue(THERE, [new(f"m{number}") for number in range(WIDE)])
        answer = await bench.add("j", blockers=on(*(f"m{number}" for number in range(WIDE))))
        claimed = await bench.claim(worker, WIDE)
        await bench.turn(worker, *(complete(job, job.lease.id.encode()) for job in claimed))
        assert await bench.state("j") is State.WAITING
        found = await bench.store.blockers(QUEUE, "j", answer.run)
        assert [each.result for each in found] == [f"m{number}".encode() for number in range(WIDE)]

    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    async def test_a_blocker_that_completes_while_it_is_added_strands_nobody(self, bench: Bench, queue: str) -> None:
        worker = await bench.session(queue)
        other = await bench.another()
        for number in range(20):
            await bench.add(f"a{number}", queue=queue)
            (claimed,) = await bench.claim(worker)
            job = new(f"j{number}", blockers=on(f"a{number}", queue=queue), delay_ms=60_000)
            await asyncio.gather(other.enqueue(QUEUE, [job]), bench.turn(worker, complete(claimed, b"A")))
        for number in range(20):
            await settled(bench, f"j{number}", State.SCHEDULED)

    @pytest.mark.parametrize("end", [complete, fail], ids=lambda end: end.__name__)
    @pytest.mark.parametrize("queue", [QUEUE, THERE])
    async def test_a_blocker_that_ends_in_the_turn_in_which_it_is_added_strands_nobody(
        self, bench: Bench, queue: str, end: Callable[[Claimed], Settlement]
    ) -> None:
        worker = await bench.session(QUEUE, THERE)
        await bench.add("j")
        (first,) = await bench.claim(worker)
        await bench.add("a", queue=queue, envelope=carrying(headers={"not": "plain"}))
        (blocker,) = await bench.claim(worker)
        going_on = then(first, blockers=on("a", queue=queue), on_blocker_failed="ignore")
        await bench.turn(worker, going_on, end(blocker))
        chain = await bench.store.chain(QUEUE, "j")
        assert chain is not None
        assert chain.state is State.WAITING

    async def test_the_last_two_blockers_that_complete_at_once_strand_nobody(self, bench: Bench) -> None:
        first, second = await bench.session(THERE), await bench.session(THERE)
        other = await bench.another()
        for number in range(20):
            await bench.add(f"a{number}", queue=THERE)
            await bench.add(f"b{number}", queue=THERE)
            await bench.add(f"j{number}", blockers=on(f"a{number}", f"b{number}"))
            (one,), (two,) = await bench.claim(first), await bench.claim(second)
            await asyncio.gather(
                bench.turn(first, complete(one)), other.settle_and_claim(second, [complete(two)], [], 0)
            )
        for number in range(20):
            await settled(bench, f"j{number}", State.WAITING)


async def settled(bench: Bench, id: str, state: State) -> None:
    """The job has this state, once all messages between queues have arrived."""
    for queue in (QUEUE, THERE, QUEUE, THERE):
        await bench.store.expire(queue)  # which delivers what nobody has delivered
    assert await bench.state(id) is state


async def _follows(bench: Bench, policy: str) -> None:
    expected = {"fail": State.FAILED, "cancel": State.CANCELLED, "ignore": State.WAITING}[policy]
    await settled(bench, "j", expected)
    job = await bench.get("j")
    (blocker,) = await bench.store.blockers(QUEUE, "j", job.run)
    assert blocker.state in (State.FAILED, State.CANCELLED)
