"""What hangs at the end of a job hangs at the end of its chain: its id, its result, its successor, who waits."""

from __future__ import annotations

import pytest

from ....core.chain import continuation_id
from ....core.policy import Policy
from ....core.state import State
from ....core.transition import Reply
from ....store.contract import (
    Claimed,
    Declaration,
    DedupSpec,
    Filter,
    Finished,
)
from ..bench import DAY, QUEUE, UPDATE, Bench, complete, fail, release
from ..case import Case
from .chain import OTHER, go_on, ref, then


class ChainEndCases(Case):
    """How a chain ends, and what then begins."""

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
        page = await bench.store.jobs(Filter(ids=("j",)))
        assert [job.successor for job in [await bench.get("j"), *page.jobs]] == [True, True]
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

    @pytest.mark.parametrize("queue", [QUEUE, OTHER])
    async def test_an_open_chain_keeps_its_jobs_and_they_go_together(self, bench: Bench, queue: str) -> None:
        worker = await bench.session(QUEUE, OTHER, lease_ms=10 * 3_600_000)
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first, queue=queue)
        third = await go_on(bench, worker, second, queue=QUEUE)
        ids = ["j", second.lease.id, third.lease.id]
        bench.clock.advance(2 * 3600)
        await sweep(bench)
        assert await ids_of(bench, first) == ids
        await bench.settle(worker, complete(third, b"3"))
        bench.clock.advance(3599)
        await sweep(bench)
        assert await ids_of(bench, first) == ids
        bench.clock.advance(2)
        await sweep(bench)
        assert (await bench.store.jobs(Filter())).jobs == []

    @pytest.mark.parametrize("end", ["fail", "cancel", "outside"])
    async def test_a_chain_that_ended_badly_goes_as_one(self, bench: Bench, end: str) -> None:
        await bench.store.configure(QUEUE, {"retention": {"failed": 7200.0}})
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first)
        third = await go_on(bench, worker, second)
        if end == "fail":
            await bench.settle(worker, fail(third))
        elif end == "cancel":
            await bench.settle(worker, release(third))
            await bench.store.cancel(QUEUE, third.lease.id)
        else:
            await bench.store.complete_chain(QUEUE, "j", None, b"3")
        bench.clock.advance(7199 if end == "fail" else 3599)
        await sweep(bench)
        assert len(await ids_of(bench, first)) == 3
        bench.clock.advance(2)
        await sweep(bench)
        assert (await bench.store.jobs(Filter())).jobs == []

    async def test_a_later_job_with_a_ttl_of_its_own_goes_by_it(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first, result_ttl_ms=1000)
        await go_on(bench, worker, second)
        bench.clock.advance(2)
        await sweep(bench)
        assert [second.lease.id in await ids_of(bench, first), len(await ids_of(bench, first))] == [False, 2]

    async def test_an_endless_chain_keeps_its_first_thousand_jobs(self, bench: Bench) -> None:
        worker = await bench.session(lease_ms=10 * 3_600_000)
        first = await bench.take(worker, "j")
        last = first
        for _ in range(1003):
            (last,) = (await bench.turn(worker, then(last), queues=(QUEUE,), room=1)).claimed
        bench.clock.advance(3601)
        await sweep(bench)
        kept = (await bench.store.jobs(Filter(chain=ref(first)), limit=2000)).jobs
        assert sorted(job.position for job in kept) == [*range(1000), 1003]
        await bench.settle(worker, complete(last, b"at last"))

    async def test_jobs_whose_first_job_is_lost_go_by_their_own_time(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first, queue=OTHER)
        third = await go_on(bench, worker, second, queue=OTHER)
        await bench.harness.lose(bench.store, QUEUE, "j")
        assert (await bench.settle(worker, complete(third))).reply is Reply.OK
        await sweep(bench)
        assert (await bench.get(third.lease.id, queue=OTHER)).state is State.COMPLETED
        bench.clock.advance(3601)
        await sweep(bench)
        assert (await bench.store.jobs(Filter())).jobs == []

    async def test_a_result_ttl_set_meanwhile_counts_from_the_chains_end(self, bench: Bench) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        assert await bench.store.set_result_ttl(QUEUE, "j", 60_000) is Reply.OK
        await bench.tick(100)
        assert (await bench.add("j")).status == "duplicate"
        await bench.settle(worker, complete(second, b"2"))
        assert (await bench.get("j")).expires_at_ms == bench.now + 60_000

    @pytest.mark.parametrize("call", ["set_result_ttl", "keep_runs"])
    async def test_a_failed_chain_stays_as_long_as_a_dead_letter(self, bench: Bench, call: str) -> None:
        worker = await bench.session()
        first = await bench.take(worker, "j")
        second = await go_on(bench, worker, first)
        await bench.tick(100)
        await bench.settle(worker, fail(second))
        expires_at = (await bench.get("j")).expires_at_ms
        assert expires_at == bench.now + 90 * DAY * 1000
        await bench.tick(10)
        if call == "keep_runs":
            await bench.store.keep_runs(QUEUE, first.lease.run, first.lease.run, 1000)
        else:
            assert await bench.store.set_result_ttl(QUEUE, "j", 1000) is Reply.OK
        assert (await bench.get("j")).expires_at_ms == expires_at

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

    @pytest.mark.parametrize("end", ["complete", "delete"])
    async def test_a_chain_that_goes_on_without_its_id_leaves_the_next_runs_successor(
        self, bench: Bench, end: str
    ) -> None:
        worker = await bench.session()
        second = await go_on(bench, worker, await bench.take(worker, "j"))
        await bench.settle(worker, fail(second))
        await bench.tick(3600)
        await bench.store.extend(worker)
        next_run = await bench.take(worker, "j")
        await bench.store.requeue(Filter(queue=QUEUE, ids=(second.lease.id,)))
        (again,) = await bench.claim(worker)
        assert (await bench.add("j", UPDATE, payload=b"later")).status == "successor"
        if end == "complete":
            await bench.settle(worker, complete(again, b"at last"))
        else:
            assert again.chain is not None
            assert (await bench.store.delete_chain(QUEUE, "j", again.chain.run)).reply is Reply.OK
        assert await bench.claim(worker) == [], "it waits for the run that has the id"
        await bench.settle(worker, complete(next_run))
        (later,) = await bench.claim(worker)
        assert (later.lease.id, later.payload) == ("j", b"later")

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


async def sweep(bench: Bench) -> None:
    """All that is over is gone, in both queues, and all messages between them have arrived."""
    for queue in (QUEUE, OTHER, QUEUE, OTHER):
        await bench.store.expire(queue, 2000)


async def ids_of(bench: Bench, first: Claimed) -> list[str]:
    """Return the ids of a chain's jobs that are there, in order."""
    jobs = (await bench.store.jobs(Filter(chain=ref(first)))).jobs
    return [job.id for job in sorted(jobs, key=lambda job: job.position)]
