"""Successors: an id that is enqueued again while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ....core.policy import Cause, Counters, Overrides, Retry
from ....core.state import State
from ....store.contract import Claimed, Conflict, Session, Settlement, UpdateRunAt
from ..bench import FOREVER, QUEUE, UPDATE, Bench, complete, fail, release, retry, snooze
from ..case import Case

RETURNS: dict[str, Callable[[Claimed], Settlement]] = {
    "retry": retry,
    "timeout": lambda claimed: retry(claimed, Cause.TIMEOUT),
    "snooze": lambda claimed: snooze(claimed, 30),
    "release": release,
    "delayed release": lambda claimed: release(claimed, 30),
}
"""Every return from active by a settlement; `stall` is the one by reaping."""


class SuccessorCases(Case):
    """What becomes of the next dispatch of an active job."""

    async def test_an_active_job_gets_a_successor_and_keeps_its_lease(self, bench: Bench) -> None:
        worker, other = await bench.session(), await bench.session()
        claimed = await bench.take(worker, "j")
        answer = await bench.add("j", UPDATE, payload=b"next")
        assert (answer.status, answer.state) == ("successor", State.ACTIVE)
        assert answer.run > claimed.lease.run
        job = await bench.get("j")
        assert (job.run, job.payload, job.successor) == (claimed.lease.run, b"j", True)
        assert await bench.claim(other) == [], "an id never has two valid leases"
        assert (await bench.settle(worker, complete(claimed))).state is State.COMPLETED

    @pytest.mark.parametrize("end", [complete, fail])
    async def test_a_successor_is_the_next_run_when_the_active_one_ends(
        self, bench: Bench, end: Callable[[Claimed], Settlement]
    ) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        answer = await bench.add("j", UPDATE, payload=b"next", priority=3, key="k")
        await bench.settle(worker, end(claimed))
        job = await bench.get("j")
        assert (job.run, job.state, job.payload, job.counters) == (answer.run, State.WAITING, b"next", Counters())
        assert (job.priority, job.key, job.successor) == (3, "k", False)
        (second,) = await bench.claim(worker)
        assert second.lease.run == answer.run
        assert (await bench.get("j", claimed.lease.run)).state.finished

    @pytest.mark.parametrize("run_at", [0, 5000])
    async def test_a_successor_never_starts_early(self, bench: Bench, run_at: int) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        at = bench.now + run_at if run_at else 0
        await bench.add("j", UPDATE, run_at_ms=at)
        bench.clock.advance(2)
        assert await bench.claim(worker) == []
        await bench.settle(worker, complete(claimed))
        job = await bench.get("j")
        assert job.run_at_ms == max(at, bench.now)
        assert job.state is (State.SCHEDULED if run_at else State.WAITING)
        assert len(await bench.claim(worker)) == (0 if run_at else 1)

    @pytest.mark.parametrize("how", [*RETURNS, "stall"])
    async def test_on_every_return_from_active_both_merge_into_one_job(self, bench: Bench, how: str) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j", overrides=Overrides(retry=FOREVER))
        bench.clock.advance(1)
        answer = await bench.add("j", UPDATE, payload=b"next", key="k", priority=4)
        await _return(bench, worker, claimed, how)
        job = await bench.get("j")
        assert (job.run, job.payload, job.key, job.priority) == (claimed.lease.run, b"next", "k", 4)
        assert (job.state, job.run_at_ms) == (State.WAITING, bench.now), "it takes the successor's time"
        assert job.counters == Counters(attempts=1), "a new payload starts with fresh counters"
        assert not job.successor
        assert (await bench.get("j", answer.run)).run == claimed.lease.run, "the absorbed run is answered for"
        other = await bench.session()
        assert await bench.order(other) == ["j"]
        assert await bench.order(other) == []

    @pytest.mark.parametrize("how", [*RETURNS, "stall"])
    async def test_a_merge_that_changes_nothing_leaves_the_return_as_it_was(self, bench: Bench, how: str) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j", overrides=Overrides(retry=FOREVER))
        nothing = Conflict(on_conflict="update", update_payload=False, update_run_at="never")
        await bench.add("j", nothing, payload=b"next")
        await _return(bench, worker, claimed, how)
        job = await bench.get("j")
        assert job.payload == b"j"
        counted = {"retry": "failures", "timeout": "timeouts", "stall": "stalls", "snooze": None}.get(how, "releases")
        assert job.counters == Counters(attempts=1, **{counted: 1} if counted else {})
        waits = {"retry": 2, "timeout": 2, "snooze": 30, "delayed release": 30}.get(how, 0)
        assert job.state is (State.SCHEDULED if waits else State.WAITING)
        assert job.run_at_ms == (bench.now + waits * 1000 if waits else claimed.run_at_ms)

    async def test_a_merge_for_later_holds_back_a_released_job(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.add("j", Conflict(on_conflict="update", update_run_at="if_later"), delay_ms=5000)
        assert (await bench.settle(worker, release(claimed))).state is State.SCHEDULED
        assert await bench.order(worker) == []

    async def test_a_further_dispatch_updates_the_successor(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        first = await bench.add("j", UPDATE, payload=b"one", delay_ms=9000)
        second = await bench.add("j", Conflict(on_conflict="update", update_payload=False), payload=b"two")
        assert second.run == first.run
        await bench.settle(worker, complete(claimed))
        job = await bench.get("j")
        assert (job.run, job.payload, job.run_at_ms) == (first.run, b"one", bench.now)
        assert await bench.order(worker) == ["j"]

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            (("always", 10), ("if_later", 20), 20),
            (("always", 10), ("if_later", 5), 10),
            (("always", 10), ("if_earlier", 5), 5),
            (("always", 10), ("never", 5), 10),
            (("if_later", 10), ("always", 5), 5),
            (("if_later", 400), ("if_later", 500), 500),
            (("never", 10), ("never", 5), 300),
        ],
    )
    async def test_the_run_at_of_two_dispatches_is_as_if_both_updated_the_returned_job(
        self, bench: Bench, first: tuple[UpdateRunAt, int], second: tuple[UpdateRunAt, int], expected: int
    ) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        start = bench.now
        for mode, seconds in (first, second):
            conflict = Conflict(on_conflict="update", update_run_at=mode)
            await bench.add("j", conflict, run_at_ms=start + seconds * 1000)
        await bench.settle(worker, snooze(claimed, 300))
        assert (await bench.get("j")).run_at_ms == start + expected * 1000

    async def test_whoever_waits_for_an_absorbed_run_hears_of_the_run_that_took_it(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        answer = await bench.add("j", UPDATE, watcher=listener.address)
        assert await bench.store.watch(listener, QUEUE, "j", answer.run)
        await bench.settle(worker, release(claimed))
        (claimed,) = await bench.claim(worker)
        assert not heard
        await bench.settle(worker, complete(claimed, b"both"))
        await bench.heard(heard, 1)
        assert (heard[0].run, heard[0].state) == (answer.run, State.COMPLETED)
        assert (await bench.get("j", answer.run)).result == b"both"

    async def test_whoever_waits_for_a_successor_hears_of_its_own_end(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        answer = await bench.add("j", UPDATE, watcher=listener.address)
        await bench.settle(worker, complete(claimed))
        (claimed,) = await bench.claim(worker)
        assert not heard
        await bench.settle(worker, fail(claimed))
        await bench.heard(heard, 1)
        assert (heard[0].run, heard[0].state) == (answer.run, State.FAILED)

    async def test_whoever_waits_for_a_successor_hears_when_the_job_is_deleted(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker = await bench.session()
        await bench.take(worker, "j")
        answer = await bench.add("j", UPDATE, watcher=listener.address)
        await bench.store.delete(QUEUE, "j")
        await bench.heard(heard, 1)
        assert heard[0].run == answer.run

    async def test_a_successor_of_a_job_that_fails_at_its_limit_runs(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j", overrides=Overrides(retry=Retry(failures=1)))
        answer = await bench.add("j", UPDATE, payload=b"next")
        assert (await bench.settle(worker, retry(claimed))).state is State.FAILED
        (claimed,) = await bench.claim(worker)
        assert (claimed.lease.run, claimed.payload) == (answer.run, b"next")


async def _return(bench: Bench, worker: Session, claimed: Claimed, how: str) -> object:
    bench.clock.advance(1)
    if how == "stall":
        return await bench.vanish(worker)
    return await bench.settle(worker, RETURNS[how](claimed))
