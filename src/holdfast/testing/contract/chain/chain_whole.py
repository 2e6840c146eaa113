"""A chain as one thing: completed from outside, listed, deleted."""

from __future__ import annotations

import asyncio

from ....core.state import State
from ....core.transition import Reply
from ....store.contract import (
    Filter,
)
from ..bench import QUEUE, Bench, complete, release
from ..case import Case
from .chain import OTHER, go_on, then


class ChainWholeCases(Case):
    """What is done to a chain as a whole."""

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
        page = await bench.store.chains(Filter(queue=QUEUE, states=(State.ACTIVE,)), limit=2, cursor=page.cursor)
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
