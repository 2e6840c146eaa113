"""Suspects: a job that stalls in company is tried again in smaller company, and fails only of a stall it had alone."""

from __future__ import annotations

import pytest

from ....core.policy import Counters, Overrides, Retry
from ....core.state import State
from ....store.contract import Claimed, Filter, Session, Turn
from ..bench import AT_ONCE, QUEUE, UPDATE, Bench, complete, new, release, retry, snooze, stall
from ..case import Case

MANY = 10


class SuspectCases(Case):
    """What a stall in company means."""

    async def test_a_job_that_stalls_is_tried_in_half_the_company_then_alone_and_fails_alone(
        self, bench: Bench
    ) -> None:
        await bench.add("j")
        companies = []
        for _ in range(3):
            worker = await bench.session(slots=MANY)
            (claimed,) = await bench.claim(worker, MANY)
            companies.append(claimed.company)
            await bench.vanish(worker)
        assert companies == [None, MANY // 2, 1]
        job = await bench.get("j")
        assert (job.state, job.counters.stalls, job.company) == (State.FAILED, 3, None)

    @pytest.mark.parametrize("limit", [1, 2])
    async def test_a_stall_in_company_is_never_final(self, bench: Bench, limit: int) -> None:
        await bench.add("j", overrides=Overrides(retry=Retry(stalls=limit)))
        for stalls in (1, 2):
            assert await bench.state("j") is State.WAITING
            worker = await bench.session(slots=MANY)
            await bench.claim(worker)
            await bench.vanish(worker)
            assert (await bench.get("j")).counters.stalls == stalls
        assert (await bench.get("j")).state is State.FAILED

    async def test_a_worker_with_one_slot_is_always_alone(self, bench: Bench) -> None:
        worker = await bench.session(slots=1)
        await bench.take(worker, "j", overrides=Overrides(retry=Retry(stalls=1)))
        assert (await bench.vanish(worker)).failed == 1

    async def test_without_a_limit_the_company_shrinks_until_it_is_alone(self, bench: Bench) -> None:
        await bench.add("j", overrides=Overrides(retry=Retry(stalls=None)))
        companies = []
        for _ in range(6):
            worker = await bench.session(slots=MANY)
            companies += [job.company for job in await bench.claim(worker)]
            await bench.vanish(worker)
        assert companies == [None, 5, 2, 1, 1, 1]

    async def test_only_the_poison_fails_among_twenty_however_often_its_worker_dies(self, bench: Bench) -> None:
        ids = [f"j{number}" for number in range(20)]
        for id in ids:
            await bench.add(id)
        crashes = await _work_off(bench, MANY, poison={"j7"})
        states = {id: await bench.state(id) for id in ids}
        assert [id for id, state in states.items() if state is not State.COMPLETED] == ["j7"]
        assert states["j7"] is State.FAILED
        assert crashes == 3

    async def test_two_poisons_and_no_limit_to_spare_kill_nobody_else(self, bench: Bench) -> None:
        retry = Overrides(retry=Retry(stalls=1))
        for number in range(20):
            await bench.add(f"j{number}", overrides=retry)
        await _work_off(bench, MANY, poison={"j3", "j12"})
        states = {f"j{number}": await bench.state(f"j{number}") for number in range(20)}
        assert {id for id, state in states.items() if state is not State.COMPLETED} == {"j3", "j12"}

    async def test_a_host_with_many_innocent_jobs_recovers_in_large_parts(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(400)])
        host = await bench.session(slots=400)
        assert len(await bench.claim(host, 400)) == 400
        await bench.vanish(host)
        worker = await bench.session(slots=400)
        rounds = []
        while claimed := await bench.claim(worker, 400):
            rounds.append(len(claimed))
            await bench.turn(worker, *(complete(job) for job in claimed))
        assert rounds == [200, 200]

    async def test_the_doctor_names_those_that_wait(self, bench: Bench) -> None:
        assert (await _finding(bench))[0] == "ok"
        await _suspect(bench, "j", company=1)
        await _suspect(bench, "k", company=1)
        verdict, detail = await _finding(bench)
        assert verdict == "warning"
        assert detail == f"2 stalled beside others and wait to be tried again, such as {QUEUE}/j, alone"
        for _ in range(2):
            worker = await bench.session(slots=MANY)
            await bench.turn(worker, *(complete(job) for job in await bench.claim(worker, MANY)))
        assert (await _finding(bench))[0] == "ok"

    # --- who is given a suspect

    async def test_a_suspect_is_not_for_whoever_holds_too_many_who_hears_of_it(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=2)
        await bench.add("other")
        worker = await bench.session(slots=MANY)
        turn = await _turn(bench, worker, MANY, held=2)
        assert (_ids(turn), turn.suspects) == (["other"], (QUEUE,))
        turn = await _turn(bench, worker, MANY, held=1)
        assert (_ids(turn), turn.suspects) == (["j"], ())
        assert turn.claimed[0].company == 2

    async def test_whoever_is_given_a_suspect_is_given_no_more_than_its_company(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=3)
        for number in range(5):
            await bench.add(f"other{number}")
        assert await bench.order(await bench.session(slots=MANY)) == ["j", "other0", "other1"]

    async def test_a_suspect_that_must_be_alone_ends_the_group_in_front_of_it(self, bench: Bench) -> None:
        for id, company in (("a", 3), ("b", 1), ("c", 3)):
            await _suspect(bench, id, company=company)
        for expected in (["a"], ["b"], ["c"]):
            worker = await bench.session(slots=MANY)
            claimed = await bench.claim(worker, MANY)
            assert [job.lease.id for job in claimed] == expected
            await bench.turn(worker, *(complete(job) for job in claimed))

    async def test_whoever_asks_for_suspects_only_is_given_no_other(self, bench: Bench) -> None:
        await bench.add("other")
        await _suspect(bench, "j", company=5)
        worker = await bench.session(slots=MANY)
        turn = await bench.turn(worker, queues=worker.queues, room=MANY, only_suspects=True)
        assert _ids(turn) == ["j"]
        turn = await bench.turn(worker, queues=worker.queues, room=MANY, held=1, only_suspects=True)
        assert (_ids(turn), turn.suspects) == ([], ())

    async def test_a_suspect_of_one_queue_is_not_given_beside_jobs_of_another(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=1)
        worker = await bench.session("p", QUEUE, slots=MANY)
        await bench.add("other", queue="p")
        turn = await bench.turn(worker, queues=("p", QUEUE), room=MANY)
        assert (_ids(turn), turn.suspects) == (["other"], (QUEUE,))
        turn = await bench.turn(worker, complete(turn.claimed[0]), queues=(QUEUE, "p"), room=MANY)
        assert _ids(turn) == ["j"]

    async def test_nor_are_jobs_of_another_queue_given_beside_it(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=1)
        worker = await bench.session("p", QUEUE, slots=MANY)
        await bench.add("other", queue="p")
        assert _ids(await bench.turn(worker, queues=(QUEUE, "p"), room=MANY)) == ["j"]

    async def test_no_idle_session_is_given_more_than_the_company_of_its_suspect(self, bench: Bench) -> None:
        """A store that hands jobs to an idle worker must not add to the company of a suspect that it holds."""
        await _suspect(bench, "j", company=2)
        listener, _, _ = await bench.listen()
        worker = await bench.session(address=listener.address, slots=MANY)
        turn = await bench.store.settle_and_claim(worker, (), (QUEUE,), MANY, park=True, idle=True)
        assert _ids(turn) == ["j"]
        for number in range(4):
            await bench.add(f"other{number}")
        held = await bench.store.held(worker)
        assert len(held) <= 2
        await bench.turn(worker, *(complete(job) for job in held))

    # --- limits

    async def test_suspects_keep_to_the_limits_of_their_queue(self, bench: Bench) -> None:
        for id in ("a", "b", "c"):
            await _suspect(bench, id, company=5)
        await bench.store.configure(QUEUE, {"concurrency": 2})
        worker = await bench.session(slots=MANY)
        assert await bench.order(worker) == ["a", "b"]
        turn = await _turn(bench, worker, MANY, held=2)
        assert (_ids(turn), turn.suspects) == ([], ()), "nobody need make room for what may not start"

    async def test_suspects_keep_to_the_limits_of_their_keys(self, bench: Bench) -> None:
        for id, key in (("a", "k"), ("b", "k"), ("c", "l"), ("d", None)):
            await _suspect(bench, id, company=5, key=key)
        await bench.store.configure(QUEUE, {"key_concurrency": 1})
        worker = await bench.session(slots=MANY)
        claimed = await bench.claim(worker, MANY)
        assert [job.lease.id for job in claimed] == ["a", "c", "d"]
        turn = await bench.turn(worker, complete(claimed[0]), queues=worker.queues, room=MANY, held=2)
        assert _ids(turn) == ["b"]

    async def test_suspects_take_tokens(self, bench: Bench) -> None:
        for id in ("a", "b"):
            await _suspect(bench, id, company=5, key="k")
        await bench.store.configure(QUEUE, {"key_rate": {"count": 1, "per": 10.0}})
        worker = await bench.session(slots=MANY)
        turn = await _turn(bench, worker, MANY)
        assert (_ids(turn), turn.next_at_ms) == (["a"], bench.now + 10_000)
        await bench.tick(10)
        assert _ids(await _turn(bench, worker, MANY, held=1)) == ["b"]

    async def test_a_suspect_in_a_paused_queue_waits_and_nobody_makes_room(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=1)
        await bench.store.configure(QUEUE, {"paused": True})
        turn = await _turn(bench, await bench.session(), MANY, held=3)
        assert (turn.claimed, turn.suspects) == ([], ())

    async def test_a_lowered_limit_does_not_fail_a_suspect_that_may_be_innocent(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=2)
        await bench.declare(retry=Retry(stalls=1), version=1)
        assert await bench.order(await bench.session(slots=MANY)) == ["j"]

    # --- how suspicion ends

    @pytest.mark.parametrize("how", ["retry", "snooze"])
    async def test_whoever_came_to_an_end_is_suspect_no_longer(self, bench: Bench, how: str) -> None:
        await bench.declare(retry=AT_ONCE)
        worker, claimed = await _held_suspect(bench, "j")
        await bench.settle(worker, retry(claimed) if how == "retry" else snooze(claimed, 0))
        assert (await bench.get("j")).company is None
        (claimed,) = (await _turn(bench, worker, 1, held=9)).claimed
        assert (claimed.company, claimed.counters.stalls) == (None, 1)

    async def test_a_suspect_that_is_handed_back_stays_suspect(self, bench: Bench) -> None:
        worker, claimed = await _held_suspect(bench, "j")
        await bench.settle(worker, release(claimed))
        assert (await bench.get("j")).company == 5
        assert (await _turn(bench, worker, 1, held=9)).suspects == (QUEUE,)

    async def test_a_new_dispatch_with_fresh_counters_is_not_suspect(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=1)
        await bench.add("j", UPDATE)
        job = await bench.get("j")
        assert (job.company, job.counters.stalls) == (None, 0)
        assert _ids(await _turn(bench, await bench.session(), 1, held=9)) == ["j"]

    async def test_a_suspect_can_be_put_off_cancelled_and_deleted(self, bench: Bench) -> None:
        for id in ("later", "cancelled", "deleted"):
            await _suspect(bench, id, company=1)
        worker = await bench.session()
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, release(claimed, seconds=10))
        await bench.store.cancel(QUEUE, "cancelled")
        await bench.store.delete(QUEUE, "deleted")
        assert await bench.order(worker) == []
        await bench.tick(10)
        assert (await _turn(bench, worker, 1, held=1)).suspects == (QUEUE,)
        assert await bench.order(worker) == ["later"]

    async def test_a_requeued_run_is_not_suspect(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j", overrides=Overrides(retry=Retry(stalls=1)))
        await bench.vanish(worker)
        await bench.store.requeue(Filter(queue=QUEUE, states=(State.FAILED,)))
        assert (await bench.get("j")).company is None

    # --- processes

    async def test_a_process_that_dies_makes_its_jobs_suspects_unless_it_had_only_one(self, bench: Bench) -> None:
        await bench.declare(retry=Retry(stalls=2))
        worker = await bench.session(slots=MANY)
        shared, alone = await bench.take(worker, "shared"), await bench.take(worker, "alone")
        await bench.turn(worker, stall(shared, company=4), stall(alone))
        assert [(await bench.get(id)).company for id in ("shared", "alone")] == [1, None]
        for id in ("shared", "alone"):
            (claimed,) = await bench.claim(worker, MANY)
            assert claimed.lease.id == id
            assert (await bench.settle(worker, stall(claimed))).state is State.FAILED

    async def test_a_process_that_dies_with_several_fails_none_of_them(self, bench: Bench) -> None:
        await bench.declare(retry=Retry(stalls=1))
        worker = await bench.session(slots=MANY)
        claimed = await bench.take(worker, "j")
        settled = await bench.settle(worker, stall(claimed, company=2))
        assert settled.state is State.WAITING
        (claimed,) = await bench.claim(worker)
        assert (await bench.settle(worker, stall(claimed))).state is State.FAILED

    # --- what is seen

    async def test_the_log_and_the_counters_say_what_they_always_said(self, bench: Bench) -> None:
        await _suspect(bench, "j", company=1)
        (event,) = [event for event in await bench.events("j") if event.transition == "reap"]
        assert (event.state, event.counters) == (State.WAITING, Counters(attempts=1, stalls=1))
        info = {queue.name: queue for queue in await bench.store.queues()}[QUEUE]
        assert info.counts[State.WAITING] == 1
        assert await bench.store.pending([QUEUE])

    async def test_whoever_asks_what_it_holds_is_told_of_the_company(self, bench: Bench) -> None:
        worker, _ = await _held_suspect(bench, "j")
        (held,) = await bench.store.held(worker)
        assert held.company == 5


async def _work_off(bench: Bench, slots: int, poison: set[str]) -> int:
    """Let one worker after another work until nothing is left, and die with poison. Return how many died."""
    crashes = 0
    while True:
        worker = await bench.session(slots=slots)
        while claimed := await bench.claim(worker, slots):
            if any(job.lease.id in poison for job in claimed):
                break
            await bench.turn(worker, *(complete(job) for job in claimed))
        if not claimed:
            return crashes
        crashes += 1
        await bench.vanish(worker)


async def _finding(bench: Bench) -> tuple[str, str]:
    """Return what the doctor says of suspects."""
    (found,) = [found for found in await bench.store.doctor() if found.name == "suspects"]
    return found.verdict, found.detail


async def _suspect(bench: Bench, id: str, *, company: int, key: str | None = None) -> None:
    """A job waits that stalled once, and may have so much company; no other may be waiting that is in front of it."""
    await bench.add(id, key=key, priority=1000)
    worker = await bench.session(slots=2 * company)
    claimed = [job for job in (await _turn(bench, worker, 1, held=99)).claimed if job.lease.id == id]
    assert len(claimed) == 1
    await bench.vanish(worker)
    job = await bench.get(id)
    assert job.company == company


async def _held_suspect(bench: Bench, id: str) -> tuple[Session, Claimed]:
    await _suspect(bench, id, company=5)
    worker = await bench.session(slots=MANY)
    (claimed,) = await bench.claim(worker)
    assert claimed.lease.id == id
    return worker, claimed


async def _turn(bench: Bench, worker: Session, room: int, *, held: int = 0) -> Turn:
    return await bench.turn(worker, queues=worker.queues, room=room, held=held)


def _ids(turn: Turn) -> list[str]:
    return [job.lease.id for job in turn.claimed]
