"""Looking up many: the status of many ids in one call, and what a worker holds."""

from __future__ import annotations

from typing import Any

from ....core.job import JobRecord
from ....core.state import State
from ....store.contract import Filter
from ..bench import QUEUE, UPDATE, Bench, complete, fail
from ..case import Case

STRANGE = ("", " ", "0" * 32, "f" * 33, 'a "quoted", {braced} one', "ünï/…", "\x01mark")


class LookupCases(Case):
    """`look_up`, and lists of jobs by who holds them."""

    async def test_many_ids_are_answered_for_as_one_is(self, bench: Bench) -> None:
        worker = await bench.session()
        for id, end in (("done", complete), ("failed", fail), ("again", fail)):
            await bench.settle(worker, end(await bench.take(worker, id)))
        await bench.store.requeue(Filter(queue=QUEUE, ids=("again",), states=(State.FAILED,)))
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        await bench.add("cancelled")
        await bench.store.cancel(QUEUE, "cancelled")
        await bench.add("anew")
        await bench.store.cancel(QUEUE, "anew")
        await bench.add("anew", delay_ms=60_000)
        await bench.take(worker, "held")
        await bench.add("held", UPDATE)
        await bench.add("waiting")
        ids = ["waiting", "done", "nobody's", "held", "anew", "failed", "cancelled", "again"]
        one_by_one = [await bench.store.get(QUEUE, id) for id in ids]
        found = await bench.store.look_up(ids, QUEUE)
        assert found == [job for job in one_by_one if job is not None]
        assert [job.id for job in found] == [id for id in ids if id != "nobody's"]
        assert [(job.state, job.successor) for job in found[1:3]] == [(State.COMPLETED, False), (State.ACTIVE, True)]
        assert await bench.store.look_up([], QUEUE) == []
        assert await bench.store.look_up(ids, "another") == []

    async def test_a_run_that_has_expired_is_left_out(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "j", result_ttl_ms=1000)))
        await bench.add("k")
        bench.clock.advance(2)
        assert _names(await bench.store.look_up(["j", "k"], QUEUE)) == [(QUEUE, "k")]

    async def test_ids_of_any_form_are_found(self, bench: Bench) -> None:
        ids = [id for id in STRANGE if id]
        for id in ids:
            await bench.add(id)
        assert [job.id for job in await bench.store.look_up(ids[::-1])] == ids[::-1]

    async def test_without_a_queue_an_id_is_looked_for_in_all(self, bench: Bench) -> None:
        for queue, id in (("b", "j"), ("a", "j"), ("c", "k"), ("a", "l")):
            await bench.add(id, queue=queue)
        assert _names(await bench.store.look_up(["k", "j", "m"])) == [("c", "k"), ("a", "j"), ("b", "j")]

    async def test_one_that_cannot_be_read_hides_no_other(self, bench: Bench) -> None:
        for id in ("a", "b", "c"):
            await bench.add(id)
        await bench.harness.damage(bench.store, QUEUE, "b")
        found = await bench.store.look_up(["a", "b", "c"], QUEUE)
        assert {job.id: job.state for job in found if job.id != "b"} == {"a": State.WAITING, "c": State.WAITING}

    async def test_what_sessions_hold_is_listed_newest_first(self, bench: Bench) -> None:
        first, second = await bench.session("a", "b"), await bench.session("a")
        for queue, id in (("a", "1"), ("b", "2"), ("a", "3"), ("a", "4"), ("b", "5")):
            await bench.add(id, queue=queue)
        held = [job.lease for job in await bench.claim(first, 2, "a") + await bench.claim(first, 1, "b")]
        (other,) = await bench.claim(second, 5)

        async def ids(*sessions: str, **fields: Any) -> list[str]:
            page = await bench.store.jobs(Filter(holders=sessions, **fields))
            return [job.id for job in page.jobs]

        assert sorted(await ids(first.id)) == sorted(lease.id for lease in held) == ["1", "2", "3"]
        assert await ids(second.id) == [other.lease.id] == ["4"]
        assert sorted(await ids(first.id, second.id)) == ["1", "2", "3", "4"]
        assert await ids(first.id, queue="a") == ["3", "1"]
        assert await ids("nobody") == []
        page = await bench.store.jobs(Filter(holders=(first.id,), queue="a"), limit=1)
        assert [job.id for job in page.jobs] == ["3"]
        page = await bench.store.jobs(Filter(holders=(first.id,), queue="a"), limit=1, cursor=page.cursor)
        assert ([job.id for job in page.jobs], page.cursor) == (["1"], None)

    async def test_what_has_ended_or_was_reaped_is_held_by_nobody(self, bench: Bench) -> None:
        worker, heir = await bench.session(), await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "done")))
        await bench.settle(worker, fail(await bench.take(worker, "failed")))
        await bench.take(worker, "stalled")
        await bench.vanish(worker)
        assert (await bench.store.jobs(Filter(holders=(worker.id,)))).jobs == []
        heir = await bench.session()
        assert await bench.claim(heir)
        assert _names((await bench.store.jobs(Filter(holders=(worker.id, heir.id)))).jobs) == [(QUEUE, "stalled")]


def _names(jobs: list[JobRecord]) -> list[tuple[str, str]]:
    return [(job.queue, job.id) for job in jobs]
