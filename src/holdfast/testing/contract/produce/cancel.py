"""Cancelling: one atomic step, and a cancelled payload never runs."""

from __future__ import annotations

import pytest

from ....core.policy import Counters
from ....core.state import State
from ....core.transition import Reply
from ....store.contract import Filter, ReapedJob, Running
from ..bench import QUEUE, UPDATE, Bench, complete, fail, release, retry, snooze
from ..case import Case
from ..chain.chain import go_on, then


class CancelCases(Case):
    """What cancel finds, does and answers."""

    async def test_a_cancelled_payload_never_runs_even_if_its_id_is_enqueued_at_once(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", payload=b"A")
        assert (await bench.store.cancel(QUEUE, "j")).reply is Reply.OK
        assert (await bench.add("j", payload=b"B")).status == "queued"
        (claimed,) = await bench.claim(worker, 10)
        assert claimed.payload == b"B"
        await bench.settle(worker, complete(claimed))
        assert await bench.claim(worker, 10) == []

    async def test_a_scheduled_job_is_cancelled(self, bench: Bench) -> None:
        await bench.add("j", delay_ms=1000)
        assert (await bench.store.cancel(QUEUE, "j")).state is State.SCHEDULED
        bench.clock.advance(2)
        assert await bench.claim(await bench.session()) == []

    async def test_a_running_job_is_left_alone_by_default(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        found = await bench.store.cancel(QUEUE, "j")
        assert (found.reply, found.state, found.signalled) == (Reply.WRONG_STATE, State.ACTIVE, False)
        assert (await bench.store.extend(worker)).aborts == []
        assert (await bench.settle(worker, release(claimed))).state is State.WAITING

    @pytest.mark.parametrize("running", ["refuse", "signal"])
    async def test_a_successor_is_cancelled_with_it(self, bench: Bench, running: str) -> None:
        listener, heard, _ = await bench.listen()
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        answer = await bench.add("j", UPDATE, payload=b"next", watcher=listener.address)
        found = await bench.store.cancel(QUEUE, "j", running)  # type: ignore[arg-type]
        assert (found.reply, found.state, found.successor) == (Reply.OK, State.ACTIVE, True)
        assert (found.run, found.signalled) == (claimed.lease.run, running == "signal"), "the job itself runs on"
        again = await bench.store.cancel(QUEUE, "j")
        assert (again.reply, again.successor) == (Reply.WRONG_STATE, False), "nothing is left to cancel"
        assert not (await bench.get("j")).successor
        await bench.heard(heard, 1)
        assert (heard[0].run, heard[0].state) == (answer.run, State.CANCELLED)
        buried = await bench.store.get(QUEUE, "j", answer.run)
        assert buried is not None
        assert (buried.state, buried.payload, buried.holds_id) == (State.CANCELLED, b"next", False)
        await bench.settle(worker, complete(claimed))
        assert await bench.claim(worker) == []

    async def test_a_cancelled_successor_is_not_taken_for_one_that_was_absorbed(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        buried = await bench.add("j", UPDATE)
        await bench.store.cancel(QUEUE, "j")
        absorbed = await bench.add("j", UPDATE)
        await bench.settle(worker, release(claimed))
        assert (await bench.get("j", buried.run)).state is State.CANCELLED
        assert (await bench.get("j", absorbed.run)).run == claimed.lease.run

    @pytest.mark.parametrize(("running", "reason"), [("signal", "cancelled"), ("kill", "killed")])
    async def test_the_worker_hears_how_a_running_job_is_to_be_stopped(
        self, bench: Bench, running: Running, reason: str
    ) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        found = await bench.store.cancel(QUEUE, "j", running)
        assert (found.reply, found.signalled) == (Reply.OK, True)
        assert (await bench.store.extend(worker)).aborts == [(claimed.lease, reason)]
        assert (await bench.settle(worker, release(claimed))).state is State.CANCELLED

    async def test_completion_stands_though_a_signal_was_sent(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.cancel(QUEUE, "j", "signal")
        assert (await bench.settle(worker, complete(claimed, b"1"))).state is State.COMPLETED
        assert (await bench.get("j")).result == b"1"

    @pytest.mark.parametrize("exit", [retry, fail, snooze, release], ids=lambda exit: exit.__name__)
    async def test_any_other_exit_after_a_signal_ends_in_cancelled(self, bench: Bench, exit: object) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.cancel(QUEUE, "j", "signal")
        assert (await bench.settle(worker, exit(claimed))).state is State.CANCELLED  # type: ignore[operator]
        job = await bench.get("j")
        assert (job.state, job.holds_id) == (State.CANCELLED, False)
        assert job.counters == Counters(attempts=1), "nothing is counted against a cancelled job"
        assert await bench.claim(worker) == []

    async def test_a_reap_after_a_signal_ends_in_cancelled(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.cancel(QUEUE, "j", "signal")
        reaped = await bench.vanish(worker)
        assert (reaped.returned, reaped.failed) == (0, 0)
        ran_ms = bench.now - claimed.claimed_at_ms
        assert reaped.jobs == (ReapedJob(claimed.lease, claimed.task, State.CANCELLED, claimed.counters, ran_ms),)
        assert await bench.state("j") is State.CANCELLED

    async def test_a_dispatch_after_the_signal_runs(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.cancel(QUEUE, "j", "signal")
        answer = await bench.add("j", UPDATE, payload=b"B")
        await bench.settle(worker, release(claimed))
        (claimed,) = await bench.claim(worker)
        assert (claimed.lease.run, claimed.payload) == (answer.run, b"B")
        assert (await bench.settle(worker, retry(claimed))).state is State.SCHEDULED, "the signal was for A"

    @pytest.mark.parametrize("end", [complete, fail], ids=lambda end: end.__name__)
    async def test_a_finished_job_answers_its_state(self, bench: Bench, end: object) -> None:
        worker = await bench.session()
        settled = await bench.settle(worker, end(await bench.take(worker, "j")))  # type: ignore[operator]
        found = await bench.store.cancel(QUEUE, "j")
        assert (found.reply, found.state) == (Reply.WRONG_STATE, settled.state)

    async def test_a_cancelled_job_answers_that_it_is(self, bench: Bench) -> None:
        await bench.add("j")
        await bench.store.cancel(QUEUE, "j")
        found = await bench.store.cancel(QUEUE, "j")
        assert (found.reply, found.state) == (Reply.WRONG_STATE, State.CANCELLED)

    async def test_a_signal_twice_is_one_signal(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        for _ in range(2):
            assert (await bench.store.cancel(QUEUE, "j", "signal")).signalled
        assert (await bench.store.extend(worker)).aborts == [(claimed.lease, "cancelled")]

    async def test_the_signal_reaches_the_next_call_of_the_worker_and_rings_its_bell(self, bench: Bench) -> None:
        listener, _, woken = await bench.listen()
        worker = await bench.session(address=listener.address)
        claimed = await bench.take(worker, "j")
        await bench.store.cancel(QUEUE, "j", "signal")
        await bench.heard(woken, 1)
        assert (await bench.turn(worker)).aborts == [(claimed.lease, "cancelled")]

    async def test_a_cancelled_job_can_be_requeued(self, bench: Bench) -> None:
        await bench.add("j")
        await bench.store.cancel(QUEUE, "j")
        assert len(await bench.store.requeue(Filter(queue=QUEUE, states=(State.CANCELLED,)))) == 1
        assert await bench.order(await bench.session()) == ["j"]

    async def test_freed_room_goes_to_the_next_of_the_key(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        worker = await bench.session()
        for id in ("a", "b"):
            await bench.add(id, key="k")
        (claimed,) = await bench.claim(worker, 5)
        await bench.store.cancel(QUEUE, "a", "signal")
        await bench.settle(worker, release(claimed))
        assert await bench.order(worker) == ["b"]

    async def test_a_chain_whose_job_was_signalled_does_not_go_on(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        await bench.store.cancel(QUEUE, "j", "signal")
        other = await bench.take(worker, "i")
        turn = await bench.turn(worker, then(first), complete(other))
        assert [settled.state for settled in turn.settled] == [State.CANCELLED, State.COMPLETED]
        assert (await bench.settle(worker, then(first))).reply is Reply.OK, "a repeat"
        assert await bench.claim(worker) == []
        assert await bench.told("j") == ["enqueue", "claim", "cancel"]

    async def test_nor_does_one_whose_later_job_was_signalled(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.store.cancel(QUEUE, second.lease.id, "signal")
        assert (await bench.settle(worker, then(second))).state is State.CANCELLED
        assert await bench.claim(worker) == []
        job = await bench.get("j")
        assert (job.outcome, job.holds_id) == (State.CANCELLED, False)

    async def test_a_chain_is_cancelled_by_its_first_job(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        found = await bench.store.cancel(QUEUE, "j", "signal")
        assert (found.reply, found.state, found.run) == (Reply.OK, State.ACTIVE, second.lease.run)
        assert (await bench.store.extend(worker)).aborts == [(second.lease, "cancelled")]
        await bench.settle(worker, complete(second, b"all the same"))
        other = await go_on(bench, worker, await bench.take(worker, "i"))
        await bench.settle(worker, release(other))
        found = await bench.store.cancel(QUEUE, "i")
        assert (found.reply, found.state, found.run) == (Reply.OK, State.WAITING, other.lease.run)
        assert [(await bench.get(id)).outcome for id in "ji"] == [State.COMPLETED, State.CANCELLED]
        assert await bench.claim(worker) == []

    async def test_a_chain_that_runs_anew_is_cancelled_by_its_first_job_again(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.settle(worker, release(second))
        await bench.store.cancel(QUEUE, "j")
        ((_, id, run),) = await bench.store.requeue(Filter(queue=QUEUE, states=(State.CANCELLED,)))
        assert id == second.lease.id
        found = await bench.store.cancel(QUEUE, "j")
        assert (found.reply, found.state, found.run) == (Reply.OK, State.WAITING, run)
        assert await bench.claim(worker) == []
