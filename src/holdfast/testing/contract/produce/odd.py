"""Odd things: strange ids, large payloads, records that cannot be read, pointers to nothing."""

from __future__ import annotations

import os

import pytest

from ....core.chain import ChainRef
from ....core.policy import Policy
from ....core.state import State
from ....core.transition import Reply
from ....errors import ConfigError
from ....store.contract import Declaration, DedupSpec, Filter
from ..bench import QUEUE, TASK, UPDATE, Bench, complete, new, retry
from ..case import Case

IDS = [
    "a:b:c", "a/b/../c", "日本語 ☃ \U0001f600", "x" * 1024, " ", "'; DROP TABLE job; --", '"quoted"', "%_*?[]",
    "{tag}", "new\nline\ttab", "e\u0301", "\u00e9", "-1", "null", "end",
]  # fmt: skip


class OddCases(Case):
    """What is put in comes out as it was, and a broken record harms no other."""

    @pytest.mark.parametrize("id", IDS, ids=range(len(IDS)))
    async def test_any_id_key_queue_and_task(self, bench: Bench, id: str) -> None:
        await bench.store.configure(id, {"key_concurrency": 2})
        worker = await bench.session(id)
        for _ in range(2):
            answers = await bench.store.enqueue(id, [new(id, key=id, task=id, dedup=DedupSpec(key=id))], UPDATE)
            assert answers[0].id == id
        assert (await bench.store.enqueue(id, [new(id), new(id + "2")]))[0].status == "duplicate"
        assert (await bench.store.cancel(id, id + "2")).reply is Reply.OK
        (claimed,) = await bench.claim(worker, 5)
        assert (claimed.lease.id, claimed.key, claimed.task, claimed.lease.queue) == (id, id, id, id)
        await bench.settle(worker, retry(claimed))
        assert await bench.store.promote(id, id) is Reply.OK
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        assert [job.id for job in (await bench.store.jobs(Filter(queue=id, ids=(id,)))).jobs] == [id]
        assert {event.id for event in await bench.events(id)} == {id}
        assert await bench.store.delete(id, id) is Reply.OK

    async def test_ids_that_look_alike_are_two(self, bench: Bench) -> None:
        assert [(await bench.add(id)).status for id in ("e\u0301", "\u00e9", "A", "a")] == ["queued"] * 4

    @pytest.mark.parametrize("number", [-1, 0, 2**48, 2**63, 2**64])
    async def test_a_number_that_no_run_has_is_that_of_no_run(self, bench: Bench, number: int) -> None:
        await bench.add("j")
        run = (await bench.get("j")).run + number if number > 0 else number
        store, (listener, _, _) = bench.store, await bench.listen()
        assert await store.get(QUEUE, "j", run) is None
        assert await store.chain(QUEUE, "j", run) is None
        assert await store.blockers(QUEUE, "j", run) == []
        assert (await store.jobs(Filter(chain=ChainRef(QUEUE, "j", run)))).jobs == []
        assert not await store.watch(listener, QUEUE, "j", run)
        assert await store.complete_chain(QUEUE, "j", run, b"") is Reply.MISSING
        assert (await store.delete_chain(QUEUE, "j", run)).reply is Reply.MISSING
        assert await bench.state("j") is State.WAITING

    @pytest.mark.parametrize("cursor", ["nonsense", "9" * 30, "-1", "²"])
    async def test_a_cursor_that_is_none_is_refused(self, bench: Bench, cursor: str) -> None:
        await bench.add("j")
        with pytest.raises(ConfigError, match="cursor"):
            await bench.store.jobs(Filter(queue=QUEUE), cursor=cursor)

    @pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 10_000_000])
    async def test_a_payload_of_any_size(self, bench: Bench, size: int) -> None:
        payload = os.urandom(size)
        worker = await bench.session()
        await bench.add("j", payload=payload)
        (claimed,) = await bench.claim(worker)
        assert claimed.payload == payload
        await bench.settle(worker, complete(claimed, payload))
        job = await bench.get("j")
        assert job.payload == payload
        assert job.result == payload

    @pytest.mark.parametrize("with_handler", [False, True])
    async def test_a_record_that_cannot_be_decoded_is_set_aside(self, bench: Bench, with_handler: bool) -> None:
        if with_handler:
            policy = Policy(on_failure=("aid", "rescue"))
            await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: policy})])
        for id in ("a", "b", "c"):
            await bench.add(id, key="k" if id == "b" else None)
        await bench.harness.damage(bench.store, QUEUE, "a")
        await bench.harness.damage(bench.store, QUEUE, "b")
        worker = await bench.session()
        assert await bench.order(worker, 10) == ["c"], "the jobs behind it go on"
        for id in ("a", "b"):
            assert await bench.state(id) is State.FAILED
            told = [(event.transition, event.cause) for event in await bench.events(id)]
            assert told == [("enqueue", None), ("fail", "corrupt")], "reported once"
        assert await bench.claim(worker, 10) == []
        assert len(await bench.claim(await bench.session("aid"), 10)) == (2 if with_handler else 0)
        assert (await bench.add("a")).status == "duplicate"

    async def test_a_record_that_is_damaged_while_it_runs_harms_nobody(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("a")
        await bench.add("b")
        a, b = await bench.claim(worker, 2)
        await bench.harness.damage(bench.store, QUEUE, "a")
        assert [job.lease.id for job in await bench.store.held(worker)] == ["b"]
        assert await bench.state("a") is State.FAILED
        assert (await bench.settle(worker, complete(a))).reply is Reply.STALE
        assert (await bench.settle(worker, complete(b))).reply is Reply.OK

    async def test_a_damaged_job_of_a_dead_worker_can_be_reaped(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "a")
        await bench.harness.damage(bench.store, QUEUE, "a")
        assert (await bench.vanish(worker)).returned == 1
        assert await bench.claim(await bench.session()) == []
        assert await bench.state("a") is State.FAILED

    async def test_a_damaged_dead_letter_can_be_seen_deleted_and_answered_for(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "a")
        await bench.settle(worker, complete(claimed))
        await bench.harness.damage(bench.store, QUEUE, "a")
        assert await bench.state("a") is State.COMPLETED
        assert len((await bench.store.jobs(Filter(queue=QUEUE))).jobs) == 1
        assert (await bench.add("a")).status == "completed"
        assert await bench.store.delete(QUEUE, "a") is Reply.OK

    async def test_a_pointer_whose_record_is_gone_does_not_block_the_jobs_behind_it(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        for id in ("a", "b"):
            await bench.add(id, key=id)
        await bench.add("c")
        await bench.harness.lose(bench.store, QUEUE, "a")
        worker = await bench.session()
        assert sorted(await bench.order(worker, 1) + await bench.order(worker, 5)) == ["b", "c"]
        assert (await bench.add("a", key="a")).status == "queued"
        assert await bench.order(worker) == ["a"]

    async def test_a_session_whose_job_is_gone_goes_on(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "a")
        await bench.harness.lose(bench.store, QUEUE, "a")
        assert (await bench.settle(worker, complete(claimed))).reply is Reply.MISSING
        assert await bench.store.held(worker) == []
