"""Chores: what upkeep has to do in many queues, told by one call that changes nothing."""

from __future__ import annotations

from ....store.contract import QueueChores, Session
from ..bench import QUEUE, TASK, Bench, complete
from ..case import Case

QUEUES = (QUEUE, "idle", "other")


class ChoreCases(Case):
    """Which queues `reap` and `expire` have something to do in."""

    async def test_there_is_nothing_to_do_while_all_are_well(self, bench: Bench) -> None:
        mine = await bench.session(*QUEUES)
        await bench.take(mine, "j")
        found = await bench.store.chores(QUEUES, mine.id)
        assert (found.reap, found.expire, found.next_ms) == ((), (), None)

    async def test_it_tells_when_the_next_lease_of_another_is_over_in_any_of_the_queues(self, bench: Bench) -> None:
        mine = await bench.session(*QUEUES, lease_ms=2000)
        await bench.session("other", lease_ms=60_000)
        await bench.session("elsewhere", lease_ms=30_000)
        assert (await bench.store.chores(QUEUES, mine.id)).next_ms == 60_000

    async def test_the_queues_of_a_vanished_worker_are_to_be_reaped_until_they_are(self, bench: Bench) -> None:
        vanished = await bench.session(QUEUE, "other")
        await bench.take(vanished, "j")
        await bench.tick(vanished.lease_ms / 1000 + 1)
        mine = await bench.session(*QUEUES)
        assert sorted((await _chores(bench, mine)).reap) == sorted([QUEUE, "other"])
        await bench.store.reap(QUEUE, but=mine.id)
        assert (await _chores(bench, mine)).reap == ("other",)
        await bench.store.reap("other", but=mine.id)
        assert (await _chores(bench, mine)).reap == ()

    async def test_what_one_reap_leaves_is_to_be_reaped_still(self, bench: Bench) -> None:
        vanished = await bench.session()
        for id in ("a", "b"):
            await bench.take(vanished, id)
        await bench.tick(vanished.lease_ms / 1000 + 1)
        mine = await bench.session(*QUEUES)
        assert (await bench.store.reap(QUEUE, 1, mine.id)).more
        assert (await _chores(bench, mine)).reap == (QUEUE,)

    async def test_a_worker_need_not_reap_itself(self, bench: Bench) -> None:
        mine = await bench.session(*QUEUES)
        await bench.tick(mine.lease_ms / 1000 + 1)
        assert (await _chores(bench, mine)).reap == ()

    async def test_a_queue_is_to_be_swept_once_a_run_is_past_its_time(self, bench: Bench) -> None:
        mine = await bench.session(*QUEUES)
        await bench.add("j", result_ttl_ms=5000)
        (claimed,) = await bench.claim(mine)
        await bench.settle(mine, complete(claimed))
        assert (await _chores(bench, mine)).expire == ()
        await bench.tick(6)
        assert (await _chores(bench, mine)).expire == (QUEUE,)
        assert (await bench.store.expire(QUEUE)).runs == 1
        assert (await _chores(bench, mine)).expire == ()

    async def test_a_changed_policy_is_noticed(self, bench: Bench) -> None:
        await bench.declare(queue="other")
        before = (await bench.store.chores(QUEUES)).policies
        assert (await bench.store.chores(QUEUES)).policies == before
        await bench.store.adjust("other", TASK, {"failures": 7})
        assert (await bench.store.chores(QUEUES)).policies != before


async def _chores(bench: Bench, mine: Session) -> QueueChores:
    return await bench.store.chores(QUEUES, mine.id)
