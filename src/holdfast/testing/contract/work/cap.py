"""Failures with a time of their own, and caps on snoozes and on all attempts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ....core.policy import Cause, Counters, Overrides, Policy, Retry
from ....core.state import State
from ....store.contract import Claimed, Declaration, Filter, Released, Settlement
from ..bench import ERROR, FOREVER, QUEUE, TASK, UPDATE, Bench, free, release, retry, snooze, stall
from ..case import Case

WAYS: dict[str, tuple[str | None, Callable[[Claimed], Settlement]]] = {
    "failure": ("failures", retry),
    "timeout": ("timeouts", lambda claimed: retry(claimed, Cause.TIMEOUT)),
    "release": ("releases", release),
    "stall": ("stalls", stall),
    "stall in company": ("stalls", lambda claimed: stall(claimed, 4)),
    "snooze": (None, lambda claimed: snooze(claimed, 0)),
}
"""How an attempt comes back, and which counter that eats."""


def capped(**caps: Any) -> Overrides:
    """Return overrides with these limits and no other."""
    return Overrides(retry=msgspec.structs.replace(FOREVER, initial=0, maximum=0, **caps))


class CapCases(Case):
    """A failure may bring its own time; and what costs nothing else can be capped."""

    async def test_a_failure_with_its_own_time_counts_and_comes_back_then(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        settled = await bench.settle(worker, retry(claimed, delay_ms=77_000))
        assert settled.state is State.SCHEDULED
        job = await bench.get("j")
        assert (job.run_at_ms, job.counters, job.error) == (bench.now + 77_000, Counters(attempts=1, failures=1), ERROR)
        bench.clock.advance(76.9)
        assert await bench.claim(worker) == []
        bench.clock.advance(0.1)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, retry(claimed, run_at_ms=bench.now + 5_000))
        assert (await bench.get("j")).run_at_ms == bench.now + 5_000
        last = (await bench.events("j"))[-1]
        assert (last.transition, last.cause, last.run_at_ms) == ("retry", "failure", bench.now + 5_000)

    async def test_a_time_in_the_past_is_at_once(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, retry(claimed, run_at_ms=bench.now - 60_000))
        assert (await bench.get("j")).run_at_ms == bench.now
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, retry(claimed, delay_ms=0))
        assert len(await bench.claim(worker)) == 1

    async def test_its_own_time_does_not_help_at_the_limit_of_failures(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=Overrides(retry=Retry(failures=2)))
        for state in (State.SCHEDULED, State.FAILED):
            (claimed,) = await bench.claim(worker)
            assert (await bench.settle(worker, retry(claimed, delay_ms=1000))).state is state
            bench.clock.advance(1)
        assert (await bench.get("j")).error == ERROR

    @pytest.mark.parametrize("how", WAYS)
    async def test_the_nth_attempt_is_final_whatever_ended_it(self, bench: Bench, how: str) -> None:
        counter, settlement = WAYS[how]
        worker = await bench.session()
        await bench.add("j", overrides=capped(attempts=3))
        for state in (True, True, False):
            (claimed,) = await bench.claim(worker)
            settled = await bench.settle(worker, settlement(claimed))
            assert (settled.state is not State.FAILED) is state
        assert (await bench.settle(worker, settlement(claimed))).state is State.FAILED, "the reply was lost"
        job, last = await bench.get("j"), (await bench.events("j"))[-1]
        assert job.counters == Counters(attempts=3, **({counter: 3} if counter else {}))
        assert (last.transition, last.cause) == ("fail", Cause.ATTEMPTS)
        assert job.error is not None
        told = ("TooManyAttempts", "3 attempts, and no more are allowed")
        assert (job.error.type, job.error.message) == (
            told if how in ("release", "snooze") else (ERROR.type, ERROR.message)
        )
        assert last.error_type == job.error.type
        assert last.error_signature == job.error.signature

    async def test_all_attempts_count_together(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=capped(attempts=len(WAYS)))
        for _, settlement in WAYS.values():
            assert (await bench.get("j")).state is not State.FAILED
            (claimed,) = await bench.claim(worker)
            await bench.settle(worker, settlement(claimed))
        assert (await bench.get("j")).state is State.FAILED

    async def test_a_worker_that_vanishes_ends_the_last_attempt(self, bench: Bench) -> None:
        await bench.add("j", overrides=capped(attempts=2))
        for _ in range(2):
            worker = await bench.session(slots=8)
            assert len(await bench.claim(worker)) == 1
            await bench.vanish(worker)
        job = await bench.get("j")
        assert (job.state, job.counters.stalls) == (State.FAILED, 2)
        assert (await bench.events("j"))[-1].cause == Cause.ATTEMPTS

    async def test_what_its_worker_suffered_is_no_attempt_of_the_job(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=capped(attempts=2))
        for _ in range(4):
            (claimed,) = await bench.claim(worker)
            assert (await bench.settle(worker, free(claimed))).state is State.WAITING
        (claimed,) = await bench.claim(worker)
        assert (claimed.counters.attempts, claimed.spared) == (5, 4)
        assert (await bench.settle(worker, retry(claimed))).state is State.SCHEDULED
        (claimed,) = await bench.claim(worker)
        assert [job.spared for job in await bench.store.held(worker)] == [4]
        assert (await bench.settle(worker, retry(claimed))).state is State.FAILED

    async def test_the_nth_snooze_is_final(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=capped(snoozes=3))
        for nth in (1, 2, 3):
            (claimed,) = await bench.claim(worker)
            assert claimed.snoozes == nth - 1
            await bench.settle(worker, snooze(claimed, 0))
            assert (await bench.get("j")).snoozes == nth
        job, last = await bench.get("j"), (await bench.events("j"))[-1]
        assert (job.state, job.counters, last.cause) == (State.FAILED, Counters(attempts=3), Cause.SNOOZE)
        assert job.error is not None
        assert (job.error.type, job.error.message) == ("TooManySnoozes", "3 snoozes, and no more are allowed")
        assert last.error_signature == job.error.signature

    async def test_other_ends_are_no_snoozes(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=capped(snoozes=1))
        for how in ("failure", "release", "stall", "timeout"):
            (claimed,) = await bench.claim(worker)
            await bench.settle(worker, WAYS[how][1](claimed))
        assert (await bench.get("j")).state in (State.WAITING, State.SCHEDULED)

    @pytest.mark.parametrize("cap", ["attempts", "snoozes"])
    async def test_a_job_already_at_a_lowered_cap_fails_at_its_claim(self, bench: Bench, cap: str) -> None:
        worker = await bench.session()
        await bench.add("j")
        for _ in range(2):
            (claimed,) = await bench.claim(worker)
            await bench.settle(worker, snooze(claimed, 0))
        await bench.declare(retry={cap: 9})
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, Released(claimed.lease))
        await bench.store.adjust(QUEUE, TASK, {cap: 2})
        assert await bench.claim(worker) == []
        job, last = await bench.get("j"), (await bench.events("j"))[-1]
        assert (job.state, job.counters.attempts) == (State.FAILED, 3)
        assert last.cause == {"attempts": Cause.ATTEMPTS, "snoozes": Cause.SNOOZE}[cap]
        assert (job.error and job.error.type, last.error_signature) == (
            "LimitReached",
            job.error and job.error.signature,
        )

    async def test_caps_are_a_policys_and_an_operators(self, bench: Bench) -> None:
        policy = Policy(retry=Retry(attempts=7, snoozes=4))
        await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: policy})])
        assert (await bench.store.policies(QUEUE))[TASK] == policy
        adjusted = await bench.store.adjust(QUEUE, TASK, {"attempts": 1})
        assert (adjusted.retry.attempts, adjusted.retry.snoozes) == (1, 4)
        worker = await bench.session()
        assert (await bench.settle(worker, snooze(await bench.take(worker, "j"), 0))).state is State.FAILED

    async def test_a_requeued_job_starts_anew(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=capped(attempts=2, snoozes=2))
        for _ in range(2):
            for state in (State.SCHEDULED, State.FAILED):
                (claimed,) = await bench.claim(worker)
                assert (await bench.settle(worker, snooze(claimed, 0))).state is state
            await bench.store.requeue(Filter(queue=QUEUE))
            job = await bench.get("j")
            assert (job.state, job.counters, job.snoozes) == (State.WAITING, Counters(), 0)

    @pytest.mark.parametrize("active", [False, True])
    async def test_an_update_that_resets_the_counts_resets_the_caps(self, bench: Bench, active: bool) -> None:
        worker, caps = await bench.session(), capped(attempts=2, snoozes=2)
        await bench.add("j", overrides=caps)
        (claimed,) = await bench.claim(worker)
        if active:
            await bench.add("j", UPDATE, payload=b"new", overrides=caps)
        await bench.settle(worker, snooze(claimed, 0))
        if not active:
            await bench.add("j", UPDATE, payload=b"new", overrides=caps)
        assert ((await bench.get("j")).snoozes, (await bench.get("j")).counters.attempts) == (0, 1)
        for state in (State.SCHEDULED, State.FAILED):
            (claimed,) = await bench.claim(worker)
            assert claimed.spared == 1
            assert (await bench.settle(worker, retry(claimed))).state is state
