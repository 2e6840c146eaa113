"""Leases: who is alive, who is dead and learns it, and what becomes of their jobs."""

from __future__ import annotations

import msgspec
import pytest

from ....core.job import Progress
from ....core.policy import Counters
from ....core.state import State
from ....core.transition import Reply
from ....store.contract import Declaration, Filter, NewJob
from ..bench import QUEUE, UPDATE, Bench, carrying, complete, fail, new, release, retry, snooze
from ..case import Case


class LeaseCases(Case):
    """Sessions, heartbeats and reaping."""

    async def test_late_but_not_reaped_still_counts(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.tick(20)
        turn = await bench.turn(worker, complete(claimed))
        assert (turn.evicted, turn.late) == (False, True)
        assert turn.settled[0].reply is Reply.OK
        assert not (await bench.turn(worker)).late, "it was renewed"

    async def test_a_late_heartbeat_counts_too(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        await bench.tick(20)
        beat = await bench.store.extend(worker)
        assert (beat.evicted, beat.late) == (False, True)
        assert (await bench.store.reap(QUEUE)).sessions == ()

    async def test_a_heartbeat_in_time_keeps_everything(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        for _ in range(6):
            await bench.tick(10)
            beat = await bench.store.extend(worker)
            assert (beat.evicted, beat.late) == (False, False)
            assert (await bench.store.reap(QUEUE)).sessions == ()

    async def test_a_settle_or_claim_is_a_heartbeat(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        await bench.tick(10)
        await bench.turn(worker)
        await bench.tick(10)
        assert (await bench.store.reap(QUEUE)).sessions == ()

    async def test_a_reap_tells_when_the_next_lease_of_another_is_over(self, bench: Bench) -> None:
        async def next_ms(queue: str = QUEUE) -> int | None:
            return (await bench.store.reap(queue, but=mine.id)).next_ms

        mine = await bench.session(QUEUE, "other", lease_ms=2000)
        assert await next_ms() is None, "one's own lease is known"
        await bench.session(lease_ms=60_000)
        assert await next_ms() == 60_000
        short = await bench.session(lease_ms=3000)
        bench.clock.advance(1)
        assert await next_ms() == 2000
        await bench.store.extend(short)
        assert (await next_ms(), await next_ms("other")) == (3000, None)
        for _ in range(4):
            bench.clock.advance(1)
            await bench.store.extend(mine)
        assert await next_ms() == 55_000, "who is dead has no lease any more"
        assert (await bench.store.reap(QUEUE)).next_ms == 2000, "who does not say who it is asks for all"

    @pytest.mark.parametrize("lease_ms", [300, 600, 1000, 15_000])
    async def test_who_only_reaps_and_looks_often_enough_is_heard_itself(self, bench: Bench, lease_ms: int) -> None:
        """No worker is alive, and only reapers call: that must not look like an outage of the store."""
        await bench.take(await bench.session(lease_ms=lease_ms), "j")
        returned = []
        for _ in range(6):
            bench.clock.advance(lease_ms / 4000)
            returned.append((await bench.store.reap(QUEUE)).returned)
        assert sum(returned) == 1, returned
        assert await bench.state("j") is State.WAITING

    @pytest.mark.parametrize("call", ["turn", "extend"])
    async def test_a_session_declared_dead_learns_it_on_its_next_call(self, bench: Bench, call: str) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.vanish(worker)
        await bench.add("other")
        if call == "turn":
            turn = await bench.turn(worker, complete(claimed), queues=(QUEUE,), room=5)
            assert (turn.evicted, turn.settled, turn.claimed) == (True, [], [])
        else:
            assert (await bench.store.extend(worker)).evicted
        assert await bench.state("j") is State.WAITING
        assert await bench.store.held(worker) == []

    async def test_a_session_that_was_never_registered_is_evicted(self, bench: Bench) -> None:
        stranger = msgspec.structs.replace(await bench.session(), id="never registered")
        await bench.add("j")
        assert (await bench.turn(stranger, queues=(QUEUE,), room=1)).evicted
        assert (await bench.store.extend(stranger)).evicted

    async def test_a_dead_session_whose_jobs_wait_for_the_next_batch_is_dead_all_the_same(self, bench: Bench) -> None:
        worker = await bench.session()
        for number in range(3):
            await bench.add(f"j{number}")
        claimed = await bench.claim(worker, 3)
        await bench.tick(16)
        reaped = await bench.store.reap(QUEUE, limit=1)
        assert (reaped.returned, reaped.more) == (1, True)
        assert [job.lease for job in reaped.jobs] == [claimed[0].lease]
        for job in claimed:
            assert await bench.store.progress(worker, job.lease, Progress(fraction=1), b"mine") is Reply.STALE
        assert await bench.store.held(worker) == []
        assert (await bench.turn(worker, complete(claimed[2]))).evicted
        assert (await bench.store.extend(worker)).evicted

    async def test_reaping_goes_in_bounded_batches(self, bench: Bench) -> None:
        workers = [await bench.session() for _ in range(2)]
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(7)])
        assert len(await bench.claim(workers[0], 4)) + len(await bench.claim(workers[1], 4)) == 7
        await bench.tick(16)
        counts = []
        more = True
        while more:
            reaped = await bench.store.reap(QUEUE, limit=3)
            counts.append(reaped.returned)
            more = reaped.more
        assert counts == [3, 3, 1]
        assert (await bench.store.reap(QUEUE)).sessions == ()

    async def test_reaping_never_touches_the_callers_own(self, bench: Bench) -> None:
        mine, other = await bench.session(), await bench.session()
        await bench.add("a")
        await bench.claim(mine)
        await bench.add("b")
        await bench.claim(other)
        await bench.tick(16)
        reaped = await bench.store.reap(QUEUE, but=mine.id)
        assert reaped.sessions == (other.id,)
        assert (await bench.state("a"), await bench.state("b")) == (State.ACTIVE, State.WAITING)

    async def test_reaping_never_touches_the_callers_own_even_when_somebody_else_began(self, bench: Bench) -> None:
        mine = await bench.session()
        await bench.store.enqueue(QUEUE, [new("a"), new("b")])
        await bench.claim(mine, 2)
        await bench.tick(16)
        assert (await bench.store.reap(QUEUE, limit=1)).more
        reaped = await bench.store.reap(QUEUE, but=mine.id)
        assert (reaped.sessions, reaped.returned) == ((), 0)
        assert (await bench.store.reap(QUEUE)).returned == 1

    async def test_a_zombie_cannot_complete_a_job_that_was_reaped_and_runs_elsewhere(self, bench: Bench) -> None:
        zombie = await bench.session()
        old = await bench.take(zombie, "j")
        await bench.vanish(zombie)
        worker = await bench.session()
        (claimed,) = await bench.claim(worker)
        assert (claimed.lease.run, claimed.lease.attempt) == (old.lease.run, 2)
        for settlement in (complete(old), retry(old), fail(old), snooze(old), release(old)):
            assert (await bench.turn(zombie, settlement)).evicted
        assert (await bench.settle(worker, complete(claimed, b"right"))).reply is Reply.OK
        assert (await bench.get("j")).result == b"right"

    async def test_the_store_was_away_so_expiries_move_by_the_gap(self, bench: Bench) -> None:
        worker, other = await bench.session(), await bench.session()
        await bench.take(worker, "j")
        bench.clock.advance(3600)  # nobody at all was heard
        reaped = await bench.store.reap(QUEUE)
        assert (reaped.sessions, reaped.shifted_ms) == ((), 3_600_000)
        assert not (await bench.store.extend(other)).evicted
        assert not (await bench.turn(worker)).evicted
        assert await bench.state("j") is State.ACTIVE

    async def test_how_long_is_away_follows_the_leases_there_are(self, bench: Bench) -> None:
        worker = await bench.session(lease_ms=4000)
        await bench.take(worker, "j")
        bench.clock.advance(8)  # within a lease of the default length, and twice as long as this one's
        reaped = await bench.store.reap(QUEUE)
        assert (reaped.sessions, reaped.shifted_ms) == ((), 8000)
        assert not (await bench.turn(worker)).evicted
        assert await bench.state("j") is State.ACTIVE

    async def test_after_an_outage_those_who_do_not_come_back_are_reaped(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        bench.clock.advance(3600)
        assert (await bench.store.reap(QUEUE)).sessions == ()
        assert (await bench.vanish(worker)).sessions == (worker.id,)

    @pytest.mark.parametrize("clock", ["set back", "ahead for a while"])
    async def test_a_clock_that_goes_back_lets_no_vanished_worker_live_on(self, bench: Bench, clock: str) -> None:
        gone, worker = await bench.session(), await bench.session()
        await bench.take(gone, "j")
        store = bench.store
        if clock == "set back":
            store = await bench.another(behind=3600)
        else:
            await (await bench.another(behind=-3600)).extend(worker)
        assert (await store.reap(QUEUE)).sessions == (), "it has a whole lease"
        for _ in range(4):
            bench.clock.advance(4)
            assert not (await store.extend(worker)).evicted
        assert (await store.reap(QUEUE)).sessions == (gone.id,)
        assert await bench.state("j") is State.WAITING

    async def test_a_session_lives_or_dies_as_a_whole(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, "other")
        await bench.add("j")
        await bench.add("k", queue="other")
        assert len(await bench.claim(worker, 5)) == 2
        await bench.vanish(worker)
        assert (await bench.turn(worker)).evicted, "declared dead in one queue"
        assert (await bench.store.reap("other")).returned == 1

    async def test_leaving_with_nothing_held_leaves_no_trace(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.leave(worker)
        assert await bench.store.sessions() == []
        assert (await bench.turn(worker)).evicted
        await bench.store.leave(worker)

    async def test_what_a_leaving_session_still_held_is_reaped_at_once(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        await bench.store.leave(worker)
        assert (await bench.store.reap(QUEUE)).returned == 1
        assert (await bench.get("j")).counters == Counters(attempts=1, stalls=1)

    async def test_reaping_a_job_at_its_stall_limit_fails_it(self, bench: Bench) -> None:
        await bench.declare(retry={"stalls": 1})
        worker = await bench.session()
        await bench.take(worker, "j")
        reaped = await bench.vanish(worker)
        assert (reaped.returned, reaped.failed) == (0, 1)

    async def test_reaping_wakes_a_parked_worker_also_when_it_only_frees_room(self, bench: Bench) -> None:
        await bench.declare(retry={"stalls": 1})
        await bench.store.configure(QUEUE, {"concurrency": 1})
        doomed = await bench.session()
        await bench.take(doomed, "j")
        await bench.add("next")
        listener, _, woken = await bench.listen()
        worker = await bench.session(address=listener.address, lease_ms=3_600_000)
        assert (await bench.turn(worker, queues=(QUEUE,), room=1, park=True)).claimed == []
        await bench.vanish(doomed)
        await bench.heard(woken, 1)
        assert await bench.order(worker) == ["next"]

    # --- waking

    async def test_an_enqueue_wakes_one_parked_worker_and_not_all(self, bench: Bench) -> None:
        ears = [await bench.listen() for _ in range(3)]
        for listener, _, _ in ears:
            worker = await bench.session(address=listener.address)
            await bench.turn(worker, queues=(QUEUE,), room=1, park=True)
        await bench.add("j")
        await bench.store.events(limit=1)
        await bench.heard(_Sum([woken for _, _, woken in ears]), 1)

    @pytest.mark.parametrize("later", [False, True])
    async def test_a_batch_wakes_as_many_as_it_has_work_for(self, bench: Bench, later: bool) -> None:
        ears = [await bench.listen() for _ in range(3)]
        for listener, _, _ in ears:
            worker = await bench.session(address=listener.address)
            await bench.turn(worker, queues=(QUEUE,), room=1, park=True)
        batch: list[NewJob] = [new("a"), new("b", delay_ms=1000 if later else None)]
        await bench.store.enqueue(QUEUE, batch)
        await bench.heard(_Sum([woken for _, _, woken in ears]), 2)

    async def test_freed_room_wakes_as_many_as_it_is_for(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"concurrency": 3})
        busy = await bench.session()
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(6)])
        held = await bench.claim(busy, 6)
        assert len(held) == 3
        ears = [await bench.listen() for _ in range(3)]
        for listener, _, _ in ears:
            worker = await bench.session(address=listener.address)
            assert (await bench.turn(worker, queues=(QUEUE,), room=1, park=True)).claimed == []
        await bench.turn(busy, *[complete(job) for job in held])
        await bench.heard(_Sum([woken for _, _, woken in ears]), 3)

    @pytest.mark.parametrize("how", ["configure", "declare", "limit_key", "delete", "promote"])
    async def test_whatever_makes_a_job_claimable_wakes_a_parked_worker(self, bench: Bench, how: str) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 1} if how != "declare" else {})
        if how == "declare":
            await _declare(bench, 1, concurrency=1)
        busy = await bench.session()
        await bench.take(busy, "a", key="k")
        await bench.add("b", key="k", delay_ms=60_000 if how == "promote" else None)
        listener, _, woken = await bench.listen()
        parked = await bench.session(address=listener.address)
        await bench.turn(parked, queues=(QUEUE,), room=1, park=True)
        if how == "configure":
            await bench.store.configure(QUEUE, {"key_concurrency": 2})
        elif how == "declare":
            await _declare(bench, 2, concurrency=2)
        elif how == "limit_key":
            await bench.store.limit_key(QUEUE, "k", 2)
        elif how == "delete":
            await bench.store.delete(QUEUE, "a")
        else:
            await bench.store.delete(QUEUE, "a")
            await bench.heard(woken, 1)
            woken.clear()
            await bench.turn(parked, queues=(QUEUE,), room=1, park=True)
            await bench.store.promote(QUEUE, "b")
        await bench.heard(woken, 1)
        assert await bench.order(parked) == ["b"]

    # --- lost replies

    async def test_a_repeated_enqueue_gets_the_first_answer(self, bench: Bench) -> None:
        worker = await bench.session()
        first = await bench.store.enqueue(QUEUE, [new("a"), new("b", delay_ms=5)], request="r1")
        await bench.settle(worker, complete((await bench.claim(worker))[0]))
        await bench.store.delete(QUEUE, "b")
        assert await bench.store.enqueue(QUEUE, [new("a"), new("b", delay_ms=5)], request="r1") == first
        assert await bench.state("b") is None
        assert (await bench.store.enqueue(QUEUE, [new("a")], request="r2"))[0].status == "completed"

    async def test_a_repeated_update_makes_one_successor(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        answers = [await bench.store.enqueue(QUEUE, [new("j")], UPDATE, request="r") for _ in range(2)]
        assert answers[0] == answers[1]
        assert (await bench.told("j")).count("update") == 1

    async def test_a_repeated_cancel_and_requeue_get_the_first_answer(self, bench: Bench) -> None:
        await bench.add("j")
        cancels = [await bench.store.cancel(QUEUE, "j", request="c") for _ in range(2)]
        assert cancels[0] == cancels[1]
        assert cancels[0].reply is Reply.OK
        which = Filter(queue=QUEUE, states=(State.CANCELLED,))
        requeues = [await bench.store.requeue(which, request="q") for _ in range(2)]
        assert requeues[0] == requeues[1]
        assert len(requeues[0]) == 1

    async def test_answers_are_forgotten_in_time(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new("a")], request="r")
        await bench.store.delete(QUEUE, "a")
        bench.clock.advance(3600)
        await bench.store.expire(QUEUE)
        assert (await bench.store.enqueue(QUEUE, [new("a")], request="r"))[0].status == "queued"

    async def test_a_worker_whose_claim_was_lost_asks_what_it_holds(self, bench: Bench) -> None:
        await bench.declare(timeout_ms=5000)
        worker = await bench.session()
        await bench.add("j", key="k", priority=3, envelope=carrying(headers={"a": "b"}), delay_ms=0)
        (lost,) = await bench.claim(worker)
        assert await bench.store.held(worker) == [lost]
        await bench.store.progress(worker, lost.lease, None, b"point")
        (again,) = await bench.store.held(worker)
        assert again.checkpoint == b"point"
        assert (await bench.settle(worker, release(again))).reply is Reply.OK
        assert await bench.store.held(worker) == []

    async def test_one_bad_settlement_gets_its_own_word_and_the_rest_go_through(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(4)])
        a, b, c, d = await bench.claim(worker, 4)
        await bench.store.delete(QUEUE, b.lease.id)
        stale = msgspec.structs.replace(c.lease, attempt=9)
        turn = await bench.turn(worker, complete(a), complete(b), complete(stale), complete(d), complete(a))
        assert [settled.reply for settled in turn.settled] == ["ok", "missing", "stale", "ok", "ok"]
        assert await bench.state("j2") is State.ACTIVE
        assert (await bench.told("j0")).count("complete") == 1

    # --- progress and checkpoints

    async def test_the_next_attempt_receives_the_checkpoint(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.progress(worker, claimed.lease, Progress(fraction=0.1), b"one")
        await bench.store.progress(worker, claimed.lease, Progress(fraction=0.2), None)
        assert (await bench.get("j")).checkpoint == b"one"
        await bench.settle(worker, retry(claimed))
        bench.clock.advance(2)
        (claimed,) = await bench.claim(worker)
        assert claimed.checkpoint == b"one"

    async def test_an_empty_checkpoint_is_one(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.progress(worker, claimed.lease, None, b"")
        await bench.settle(worker, release(claimed))
        (claimed,) = await bench.claim(worker)
        assert claimed.checkpoint == b""

    async def test_progress_is_told_at_most_once_a_second(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        for step in range(25):
            await bench.store.progress(worker, claimed.lease, Progress(fraction=step / 25), None)
            bench.clock.advance(0.1)
        assert (await bench.told("j")).count("progress") == 3
        progress = (await bench.get("j")).progress
        assert progress is not None
        assert progress.fraction == 24 / 25

    async def test_a_zombie_writes_no_progress(self, bench: Bench) -> None:
        zombie = await bench.session()
        old = await bench.take(zombie, "j")
        await bench.vanish(zombie)
        (claimed,) = await bench.claim(await bench.session())
        assert await bench.store.progress(zombie, old.lease, Progress(fraction=1), b"mine") is Reply.STALE
        job = await bench.get("j")
        assert (job.progress, job.checkpoint) == (None, None)
        assert claimed.lease.attempt == 2


class _Sum:
    """Several lists as one, by length."""

    def __init__(self, lists: list[list[bool]]) -> None:
        self._lists = lists

    def __len__(self) -> int:
        return sum(len(each) for each in self._lists)

    def __repr__(self) -> str:
        return f"{[len(each) for each in self._lists]}"


async def _declare(bench: Bench, version: int, **settings: object) -> None:
    await bench.store.declare([Declaration(queue=QUEUE, version=version, settings=settings)])
