"""Live limits: who may start now, in which order, and when the next one may."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ....errors import ConfigError, PolicyConflict
from ....store.contract import Declaration
from ..bench import QUEUE, UPDATE, Bench, complete, new, release, retry, snooze
from ..case import Case


class LimitCases(Case):
    """Pause, priority, concurrency, keys and rates."""

    # --- order

    async def test_priority_then_run_at_then_arrival(self, bench: Bench) -> None:
        await bench.add("later", delay_ms=2000)
        await bench.add("sooner", delay_ms=1000)
        bench.clock.advance(2)
        for id, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 1000)):
            await bench.add(id, priority=priority)
        expected = ["high", "sooner", "later", "first", "second", "low"]
        assert await bench.order(await bench.session()) == expected

    async def test_a_run_at_in_the_past_is_raised_to_now(self, bench: Bench) -> None:
        await bench.add("first")
        bench.clock.advance(1)
        answer = await bench.add("second", run_at_ms=5)
        assert answer.state == "waiting"
        assert (await bench.get("second")).run_at_ms == bench.now
        assert await bench.order(await bench.session()) == ["first", "second"]

    async def test_queues_are_served_in_the_order_given(self, bench: Bench) -> None:
        await bench.add("a", queue="one")
        await bench.add("b", queue="two")
        worker = await bench.session("one", "two")
        assert [job.lease.id for job in await bench.claim(worker, 1, "two", "one")] == ["b"]
        assert [job.lease.id for job in await bench.claim(worker, 5, "two", "one")] == ["a"]

    async def test_never_more_than_there_is_room_for(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(5)])
        worker = await bench.session()
        turn = await bench.turn(worker, queues=(QUEUE,), room=2)
        assert (len(turn.claimed), turn.more) == (2, True)
        assert await bench.claim(worker, 0) == []
        turn = await bench.turn(worker, queues=(QUEUE,), room=5)
        assert (len(turn.claimed), turn.more) == (3, False)

    # --- pause

    async def test_a_paused_queue_gives_nothing_until_resumed(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j")
        await bench.store.configure(QUEUE, {"paused": True})
        turn = await bench.turn(worker, queues=(QUEUE,), room=1)
        assert (turn.claimed, turn.next_at_ms, turn.settings[QUEUE].paused) == ([], None, True)
        await bench.store.configure(QUEUE, {"paused": False})
        assert await bench.order(worker) == ["j"]

    async def test_what_runs_in_a_paused_queue_may_end(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.configure(QUEUE, {"paused": True})
        assert (await bench.settle(worker, complete(claimed))).reply == "ok"

    # --- concurrency

    async def test_the_concurrency_of_a_queue_is_over_all_workers(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"concurrency": 2})
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(5)])
        one, two = await bench.session(), await bench.session()
        held = await bench.claim(one, 5)
        assert len(held) == 2
        assert await bench.claim(two, 5) == []
        turn = await bench.turn(one, complete(held[0]), queues=(QUEUE,), room=5)
        assert len(turn.claimed) == 1, "room that is freed is there at once"

    async def test_a_lowered_concurrency_stops_nothing_that_runs(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(6)])
        worker = await bench.session()
        held = await bench.claim(worker, 3)
        await bench.store.configure(QUEUE, {"concurrency": 1})
        for job in held:
            assert await bench.claim(worker, 5) == []
            await bench.settle(worker, complete(job))
        assert len(await bench.claim(worker, 5)) == 1
        await bench.store.configure(QUEUE, {"concurrency": None})
        assert len(await bench.claim(worker, 5)) == 2

    # --- keys

    async def test_key_concurrency(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        for id in ("a1", "a2", "b1", "n1", "n2"):
            await bench.add(id, key=None if id[0] == "n" else id[0])
        worker = await bench.session()
        held = {job.lease.id: job for job in await bench.claim(worker, 10)}
        assert sorted(held) == ["a1", "b1", "n1", "n2"], "jobs without a key have no key limit"
        assert (await bench.turn(worker, complete(held["b1"]), queues=(QUEUE,), room=5)).claimed == []
        turn = await bench.turn(worker, complete(held["a1"]), queues=(QUEUE,), room=5)
        assert [job.lease.id for job in turn.claimed] == ["a2"]

    @pytest.mark.parametrize("end", [complete, retry, snooze, release], ids=lambda end: end.__name__)
    async def test_every_end_of_an_attempt_frees_its_key(self, bench: Bench, end: object) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        worker = await bench.session()
        claimed = await bench.take(worker, "a", key="k")
        await bench.add("b", key="k", priority=5)
        assert await bench.order(worker) == []
        await bench.settle(worker, end(claimed))  # type: ignore[operator]
        assert await bench.order(worker, 1) == ["b"]

    @pytest.mark.parametrize("how", ["delete", "reap", "cancel"])
    async def test_every_other_end_frees_its_key_too(self, bench: Bench, how: str) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        worker = await bench.session()
        claimed = await bench.take(worker, "a", key="k")
        await bench.add("b", key="k", priority=5)
        if how == "delete":
            await bench.store.delete(QUEUE, "a")
        elif how == "reap":
            await bench.vanish(worker)
        else:
            await bench.store.cancel(QUEUE, "a", "signal")
            await bench.settle(worker, release(claimed))
        freed = ["a"] if how == "reap" else ["b"]  # whoever stalled comes first
        assert await bench.order(await bench.session(), 1) == freed

    async def test_a_key_may_have_a_limit_of_its_own(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        await bench.store.limit_key(QUEUE, "big", 3)
        for number in range(5):
            await bench.add(f"b{number}", key="big")
            await bench.add(f"s{number}", key="small")
        worker = await bench.session()
        assert Counter(id[0] for id in await bench.order(worker)) == {"b": 3, "s": 1}
        (info,) = [info for info in await bench.store.queues() if info.name == QUEUE]
        assert info.key_overrides == {"big": 3}
        await bench.store.limit_key(QUEUE, "big", 4)
        assert await bench.order(worker) == ["b3"]
        await bench.store.limit_key(QUEUE, "big", None)
        assert await bench.order(worker) == []
        await bench.store.configure(QUEUE, {}, clear=("key_concurrency",))
        assert Counter(id[0] for id in await bench.order(worker)) == {"b": 1, "s": 4}

    async def test_limits_of_keys_that_are_declared_hold_below_what_an_operator_says(self, bench: Bench) -> None:
        settings = {"key_concurrency": 1, "key_limits": {"big": 3}}
        await bench.store.declare([Declaration(queue=QUEUE, version=1, settings=settings)])
        for number in range(9):
            await bench.add(f"b{number}", key="big")
            await bench.add(f"s{number}", key="small")
        worker = await bench.session()
        assert Counter(id[0] for id in await bench.order(worker)) == {"b": 3, "s": 1}
        await bench.store.limit_key(QUEUE, "big", 4)
        assert await bench.order(worker) == ["b3"], "an operator's is above it"
        await bench.store.declare(
            [Declaration(queue=QUEUE, version=2, settings={"key_limits": {"big": 8, "small": 2}})]
        )
        assert await bench.order(worker) == ["s1"], "and holds until it is cleared"
        await bench.store.limit_key(QUEUE, "big", None)
        assert await bench.order(worker) == ["b4", "b5", "b6", "b7"], "and then what is declared by now"
        (info,) = [info for info in await bench.store.queues() if info.name == QUEUE]
        assert (info.key_overrides, info.settings.key_limits) == ({}, {"big": 8, "small": 2})
        await bench.store.declare([Declaration(queue=QUEUE, version=3, settings={"concurrency": None})])
        assert sorted(await bench.order(worker)) == ["b8", "s2", "s3", "s4", "s5", "s6", "s7", "s8"]

    async def test_limits_of_keys_that_are_declared_hold_for_suspects(self, bench: Bench) -> None:
        await bench.store.declare([Declaration(queue=QUEUE, settings={"key_limits": {"k": 1}})])
        for id in ("a", "b"):
            await bench.take(await bench.session(), id, key=None if id == "a" else "k")
        await bench.tick(20)
        await bench.store.reap(QUEUE)
        worker, other = await bench.session(), await bench.session()
        await bench.add("c", key="k")
        taken = await bench.order(worker, 3) + await bench.order(other, 3)
        assert len({"b", "c"} & set(taken)) == 1, taken

    @pytest.mark.parametrize("settings", [{"key_limits": {"k": 2}}, {"key_required": True}])
    async def test_what_code_alone_says_is_no_setting_of_an_operator(self, bench: Bench, settings: Any) -> None:
        with pytest.raises(ConfigError, match=r"'key_\w+' is not a setting of a queue; known are paused"):
            await bench.store.configure(QUEUE, settings)

    async def test_other_limits_of_keys_in_the_same_version_are_refused(self, bench: Bench) -> None:
        await bench.store.declare([Declaration(queue=QUEUE, settings={"key_limits": {"k": 2}})])
        await bench.store.declare([Declaration(queue=QUEUE, settings={"key_limits": {"k": 2}})])
        with pytest.raises(PolicyConflict, match=r"key_limits\.k is 2 in the store, and 3 here"):
            await bench.store.declare([Declaration(queue=QUEUE, settings={"key_limits": {"k": 3}})])

    async def test_keys_take_turns_and_the_keyless_are_one_group(self, bench: Bench) -> None:
        for key in ("a", "b", None):
            for number in range(3):
                await bench.add(f"{key}{number}", key=key)
        worker = await bench.session()
        order = [(await bench.order(worker, 1))[0] for _ in range(9)]
        rounds = [order[start : start + 3] for start in (0, 3, 6)]
        assert [sorted(ids) for ids in rounds] == [[f"None{n}", f"a{n}", f"b{n}"] for n in range(3)]

    async def test_turns_are_the_same_in_one_claim_as_in_many(self, bench: Bench) -> None:
        for number in range(3):
            for key in ("a", "b", "c"):
                await bench.add(f"{key}{number}", key=key)
        order = await bench.order(await bench.session(), 9)
        assert order == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]

    async def test_one_busy_tenant_does_not_starve_the_others(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        await bench.store.enqueue(QUEUE, [new(f"busy-{number}", key="busy") for number in range(2000)])
        small = [new(f"{tenant}-{number}", key=f"tenant-{tenant}") for tenant in range(20) for number in range(5)]
        await bench.store.enqueue(QUEUE, small)
        worker = await bench.session()
        done: list[str] = []
        held = await bench.claim(worker, 4)
        while len(done) < 5 * 21:
            done += [job.lease.id for job in held]
            held = (await bench.turn(worker, *map(complete, held), queues=(QUEUE,), room=4)).claimed
        await bench.turn(worker, *map(complete, held))
        assert sum(id.startswith("busy") for id in done) <= 6, "it had its turn, and no more"

    async def test_within_a_key_priority_counts_but_not_between_keys(self, bench: Bench) -> None:
        await bench.add("a-low", key="a", priority=-5)
        await bench.add("b-high", key="b", priority=5)
        await bench.add("a-high", key="a", priority=5)
        assert await bench.order(await bench.session()) == ["a-high", "b-high", "a-low"]

    async def test_an_update_moves_a_job_to_another_key(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        worker = await bench.session()
        await bench.take(worker, "a", key="k")
        await bench.add("b", key="k")
        assert await bench.order(worker) == []
        await bench.add("b", UPDATE, key="free")
        assert await bench.order(worker) == ["b"]

    # --- rates

    async def test_the_rate_of_a_queue_with_the_exact_next_instant(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"rate": {"count": 2, "per": 1.0}})
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(4)])
        worker = await bench.session()
        turn = await bench.turn(worker, queues=(QUEUE,), room=10)
        assert (len(turn.claimed), turn.next_at_ms) == (2, bench.now + 500)
        bench.clock.advance(0.499)
        assert await bench.claim(worker, 10) == []
        bench.clock.advance(0.001)
        turn = await bench.turn(worker, queues=(QUEUE,), room=10)
        assert (len(turn.claimed), turn.next_at_ms) == (1, bench.now + 500)
        bench.clock.advance(0.5)
        turn = await bench.turn(worker, queues=(QUEUE,), room=10)
        assert (len(turn.claimed), turn.next_at_ms) == (1, None), "nothing waits, so nothing comes"

    async def test_a_burst_is_what_the_bucket_holds(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"rate": {"count": 1, "per": 60, "burst": 3}})
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(9)])
        worker = await bench.session()
        assert len(await bench.claim(worker, 10)) == 3
        bench.clock.advance(600)
        assert len(await bench.claim(await bench.session(), 10)) == 3

    async def test_the_rate_of_a_key_with_the_exact_next_instant(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 10}})
        for id in ("a1", "a2", "b1"):
            await bench.add(id, key=id[0])
        worker = await bench.session()
        turn = await bench.turn(worker, queues=(QUEUE,), room=10)
        assert sorted(job.lease.id for job in turn.claimed) == ["a1", "b1"]
        assert turn.next_at_ms == bench.now + 10_000
        await bench.tick(9.999)
        assert await bench.claim(worker, 10) == []
        bench.clock.advance(0.001)
        turn = await bench.turn(worker, queues=(QUEUE,), room=10)
        assert [job.lease.id for job in turn.claimed] == ["a2"]
        assert turn.next_at_ms is None, "no key has anything left"

    async def test_jobs_without_a_key_pay_no_key_rate(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 10}})
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(4)])
        assert len(await bench.claim(await bench.session(), 10)) == 4

    async def test_a_key_that_went_and_came_back_has_its_old_bucket(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 10}})
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "a1", key="a")))
        await bench.store.expire(QUEUE)
        bench.clock.advance(4)
        await bench.add("a2", key="a")
        turn = await bench.turn(worker, queues=(QUEUE,), room=1)
        assert (turn.claimed, turn.next_at_ms) == ([], bench.now + 6000)

    async def test_a_key_that_only_cools_down_is_no_reason_to_wake(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 10}})
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "a", key="a")))
        turn = await bench.turn(worker, queues=(QUEUE,), room=1)
        assert turn.next_at_ms is None

    async def test_a_queue_at_its_concurrency_is_no_reason_to_wake(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"concurrency": 1})
        worker = await bench.session()
        await bench.take(worker, "a")
        await bench.add("b", delay_ms=1000)
        assert (await bench.turn(worker, queues=(QUEUE,), room=1)).next_at_ms is None

    async def test_the_next_instant_is_when_the_next_scheduled_job_is_due(self, bench: Bench) -> None:
        worker = await bench.session()
        assert (await bench.turn(worker, queues=(QUEUE,), room=1)).next_at_ms is None
        await bench.add("later", delay_ms=2000)
        await bench.add("sooner", delay_ms=1000)
        turn = await bench.turn(worker, queues=(QUEUE,), room=1)
        assert (turn.next_at_ms, turn.now_ms) == (bench.now + 1000, bench.now)

    @pytest.mark.parametrize("count", [3, 7, 0.3, 1000 / 7])
    async def test_at_the_announced_instant_the_token_is_there(self, bench: Bench, count: float) -> None:
        await bench.store.configure(QUEUE, {"rate": {"count": count, "per": 1.0, "burst": 1}})
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(30)])
        worker = await bench.session(lease_ms=10**9)
        assert len(await bench.claim(worker, 1)) == 1
        for _ in range(25):
            bench.clock.advance(0.001)
            turn = await bench.turn(worker, queues=(QUEUE,), room=1)
            if turn.claimed:
                continue
            assert turn.next_at_ms is not None
            bench.clock.advance((turn.next_at_ms - bench.now) / 1000)
            assert len(await bench.claim(worker, 1)) == 1

    async def test_a_limit_that_changes_while_jobs_wait_takes_effect_on_the_next_claim(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 1000}, "rate": {"count": 1, "per": 1000}})
        for number in range(6):
            await bench.add(f"j{number}", key="k")
        worker = await bench.session()
        assert len(await bench.claim(worker, 10)) == 1
        await bench.store.configure(QUEUE, {"rate": None})
        assert await bench.claim(worker, 10) == []
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 10}})
        bench.clock.advance(10)
        assert len(await bench.claim(worker, 10)) == 1
        await bench.store.configure(QUEUE, {"key_rate": None})
        assert len(await bench.claim(worker, 10)) == 4

    async def test_a_key_with_nothing_left_leaves_no_trace(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1, "key_rate": {"count": 1, "per": 10}})
        worker = await bench.session()
        for number in range(20):
            await bench.settle(worker, complete(await bench.take(worker, f"j{number}", key=f"k{number}")))
        bench.clock.advance(3600)
        await bench.store.expire(QUEUE)
        await bench.store.leave(worker)
        assert await bench.harness.leftovers(bench.store) == {}
