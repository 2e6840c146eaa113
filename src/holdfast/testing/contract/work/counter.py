"""Counters, limits and policy: the Nth is final, whether a worker or the reaper counts it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from ....core.job import ErrorRecord
from ....core.policy import Cause, Counters, Overrides, Policy, Retry
from ....core.state import State
from ....errors import ConfigError, PolicyConflict
from ....store.contract import Claimed, Declaration, Filter, Session
from ..bench import (
    AT_ONCE,
    ERROR,
    FOREVER,
    QUEUE,
    TASK,
    Bench,
    carrying,
    complete,
    fail,
    free,
    release,
    retry,
    snooze,
    stall,
)
from ..case import Case

CAUSES = {"failures": Cause.FAILURE, "timeouts": Cause.TIMEOUT, "stalls": Cause.STALL, "releases": Cause.RELEASE}


class CounterCases(Case):
    """Five counters, each with its own limit."""

    @pytest.mark.parametrize("limit", [1, 3])
    @pytest.mark.parametrize("counter", CAUSES)
    async def test_the_nth_is_final(self, bench: Bench, counter: str, limit: int) -> None:
        policy = Retry(**{**msgspec.structs.asdict(FOREVER), counter: limit})
        await bench.add("j", overrides=Overrides(retry=policy))
        for nth in range(1, limit + 1):
            assert (await bench.get("j")).state in (State.WAITING, State.SCHEDULED)
            await _once(bench, counter)
            assert getattr((await bench.get("j")).counters, counter) == nth
        job = await bench.get("j")
        assert (job.state, job.counters.attempts) == (State.FAILED, limit)
        last = (await bench.events("j"))[-1]
        assert (last.transition, last.cause) == ("fail", CAUSES[counter])

    @pytest.mark.parametrize("counter", CAUSES)
    async def test_none_is_unlimited_and_no_counter_eats_anothers_budget(self, bench: Bench, counter: str) -> None:
        limits: dict[str, Any] = {**dict.fromkeys(CAUSES, 1), counter: None}
        await bench.add("j", overrides=Overrides(retry=Retry(**limits)))
        for _ in range(8):
            await _once(bench, counter)
        job = await bench.get("j")
        assert job.state in (State.WAITING, State.SCHEDULED)
        assert job.counters == Counters(attempts=8, **{counter: 8})

    async def test_a_snooze_costs_nothing(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=Overrides(retry=Retry(failures=1, stalls=1, timeouts=1, releases=1)))
        for _ in range(5):
            (claimed,) = await bench.claim(worker)
            assert (await bench.settle(worker, snooze(claimed, 0))).state is State.SCHEDULED
        assert (await bench.get("j")).counters == Counters(attempts=5)

    async def test_the_workers_own_trouble_costs_nothing_and_has_no_limit(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", overrides=Overrides(retry=Retry(failures=1, stalls=1, timeouts=1, releases=1)))
        for _ in range(5):
            (claimed,) = await bench.claim(worker)
            assert (await bench.settle(worker, free(claimed))).state is State.WAITING
        (claimed,) = await bench.claim(worker)
        assert (await bench.settle(worker, free(claimed, 3))).state is State.SCHEDULED
        assert (await bench.get("j")).counters == Counters(attempts=6)

    async def test_the_defaults_are_three_and_a_hundred_releases(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        for _ in range(99):
            await bench.settle(worker, release(claimed))
            (claimed,) = await bench.claim(worker)
        assert (await bench.settle(worker, release(claimed))).state is State.FAILED

    async def test_backoff_doubles_from_two_seconds(self, bench: Bench) -> None:
        await bench.declare(retry={"failures": None, "maximum": 10.0})
        await bench.add("j")
        waits = []
        for _ in range(5):
            worker = await bench.session()
            (claimed,) = await bench.claim(worker)
            await bench.settle(worker, retry(claimed))
            waits.append(((await bench.get("j")).run_at_ms - bench.now) / 1000)
            bench.clock.advance(waits[-1])
        assert waits == [2, 4, 8, 10, 10]

    async def test_backoff_of_timeouts_counts_timeouts(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, retry(claimed))
        bench.clock.advance(2)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, retry(claimed, Cause.TIMEOUT))
        assert (await bench.get("j")).run_at_ms == bench.now + 2000

    async def test_the_next_attempt_sees_the_last_error(self, bench: Bench) -> None:
        worker = await bench.session()
        error = ErrorRecord(type="Odd", message="m", traceback="tb", fields={"code": 7})
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, retry(claimed, error=error))
        bench.clock.advance(2)
        (claimed,) = await bench.claim(worker)
        assert claimed.last_error == error
        await bench.settle(worker, complete(claimed))
        assert (await bench.get("j")).error is None, "it ended well"

    async def test_a_job_that_kills_its_process_fails_at_its_stall_limit_with_the_error_that_was_told(
        self, bench: Bench
    ) -> None:
        worker = await bench.session()
        await bench.add("j")
        for stalls in (1, 2):
            (claimed,) = await bench.claim(worker)
            assert (await bench.settle(worker, stall(claimed))).state is State.WAITING
            assert (await bench.get("j")).counters.stalls == stalls
        (claimed,) = await bench.claim(worker)
        assert (await bench.settle(worker, stall(claimed))).state is State.FAILED
        assert (await bench.settle(worker, stall(claimed))).state is State.FAILED  # the reply was lost
        job = await bench.get("j")
        assert (job.error, job.counters.stalls, job.counters.releases) == (ERROR, 3, 0)

    async def test_a_retried_job_takes_its_place_by_time_and_a_released_one_keeps_its_own(self, bench: Bench) -> None:
        worker = await bench.session()
        for id in ("retried", "released", "waiting"):
            await bench.add(id)
            bench.clock.advance(1)
        first, second = await bench.claim(worker, 2)
        await bench.settle(worker, retry(first))
        await bench.settle(worker, release(second))
        bench.clock.advance(2)
        assert await bench.order(worker) == ["released", "waiting", "retried"]

    async def test_a_stalled_job_keeps_its_place(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("first")
        bench.clock.advance(1)
        await bench.add("second")
        await bench.claim(worker)
        await bench.vanish(worker)
        assert await bench.order(await bench.session(), 1) == ["first"]
        assert await bench.order(await bench.session(), 1) == ["second"]

    # --- policy

    async def test_policy_is_in_the_store_and_applies_to_jobs_already_waiting(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j")
        await bench.declare(retry={"failures": 1})
        (claimed,) = await bench.claim(worker)
        assert (await bench.settle(worker, retry(claimed))).state is State.FAILED

    async def test_a_jobs_own_overrides_win(self, bench: Bench) -> None:
        await bench.declare(retry={"failures": 1})
        worker = await bench.session()
        claimed = await bench.take(worker, "j", overrides=Overrides(retry=AT_ONCE))
        assert (await bench.settle(worker, retry(claimed))).state is State.SCHEDULED

    async def test_a_job_at_a_lowered_limit_fails_at_its_claim(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, retry(claimed))
        await bench.declare(retry={"failures": 1})
        bench.clock.advance(2)
        assert await bench.claim(worker) == []
        job = await bench.get("j")
        assert (job.state, job.counters, job.error) == (State.FAILED, Counters(attempts=1, failures=1), ERROR)
        last = (await bench.events("j"))[-1]
        assert (last.transition, last.cause, last.run_ms, last.worker) == ("fail", "failure", None, None)

    @pytest.mark.parametrize("limits", [{"concurrency": 1}, {"key_concurrency": 1}, {"rate": {"count": 1}}])
    async def test_a_job_that_fails_at_its_claim_does_not_hold_up_the_next(
        self, bench: Bench, limits: dict[str, object]
    ) -> None:
        worker = await bench.session()
        for id in ("a", "b"):
            await bench.add(id, key="k")
        for claimed in await bench.claim(worker, 2):
            await bench.settle(worker, retry(claimed))
        await bench.store.configure(QUEUE, limits)
        await bench.declare(retry={"failures": 1})
        bench.clock.advance(2)
        await bench.add("c", key="k")
        assert await bench.order(worker, 10) == ["c"]
        assert [await bench.state(id) for id in "ab"] == [State.FAILED] * 2

    async def test_a_job_that_fails_at_its_claim_costs_no_token_of_its_key(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": {"count": 2, "per": 1000}})
        worker = await bench.session()
        claimed = await bench.take(worker, "a", key="k")
        await bench.settle(worker, retry(claimed))
        await bench.declare(retry={"failures": 1})
        bench.clock.advance(2)
        await bench.add("b", key="k")
        assert await bench.order(worker, 1) + await bench.order(worker, 1) == ["b"]

    async def test_a_higher_version_wins_and_a_lower_is_ignored(self, bench: Bench) -> None:
        await bench.declare(version=2, retry={"failures": 2})
        await bench.declare(version=1, retry={"failures": 1})
        assert (await bench.store.policies(QUEUE))[TASK].retry.failures == 2
        await bench.declare(version=3, retry={"failures": 7})
        assert (await bench.store.policies(QUEUE))[TASK].retry.failures == 7

    async def test_the_same_version_with_another_value_is_refused(self, bench: Bench) -> None:
        await bench.declare(version=2, retry={"failures": 2})
        await bench.declare(version=2, retry={"failures": 2})
        with pytest.raises(PolicyConflict, match="raise the version"):
            await bench.declare(version=2, retry={"failures": 3})
        await _settings(bench, 2, concurrency=5)
        with pytest.raises(PolicyConflict, match="raise the version"):
            await _settings(bench, 2, concurrency=6)

    async def test_a_refused_declaration_is_told_both_values_and_what_to_do(self, bench: Bench) -> None:
        await bench.declare(version=2, retry={"failures": 2, "initial": 5.0})
        with pytest.raises(PolicyConflict) as task:
            await bench.declare(version=2, retry={"failures": 3, "initial": 5.0})
        assert str(task.value) == (
            f"task {TASK!r} of queue {QUEUE!r} was declared before with version 2 and other values (retry.failures "
            "is 2 in the store, and 3 here): raise the version of the app whose values shall hold "
            "(Holdfast(..., version=3)), or give both the same values; `holdfast declare MODULE:APP --force` puts "
            "those of this code in force, and in development HOLDFAST_DEVELOPMENT=1 does so at each start"
        )
        await _settings(bench, 2, concurrency=5, rate={"count": 7})
        with pytest.raises(PolicyConflict, match=re.escape("(rate.count is 7 in the store, and 8 here)")):
            await _settings(bench, 2, concurrency=5, rate={"count": 8})
        with pytest.raises(PolicyConflict, match=r"\(rate.count is 7 in the store, and not set here\)"):
            await _settings(bench, 2, concurrency=5)

    async def test_one_that_overrules_takes_the_place_of_the_same_version_and_of_no_higher_one(
        self, bench: Bench
    ) -> None:
        store, tasks = bench.store, {TASK: Policy(timeout_ms=7)}
        await bench.declare(version=2, retry={"failures": 2})
        await _settings(bench, 2, concurrency=5)
        new = Declaration(queue=QUEUE, version=2, settings={"concurrency": 6}, tasks=tasks, overrules=True)
        await store.declare([new])
        assert ((await store.policies(QUEUE))[TASK].timeout_ms, (await _queue_settings(bench)).concurrency) == (7, 6)
        low = Declaration(queue=QUEUE, version=1, settings={"concurrency": 7}, tasks={TASK: Policy()}, overrules=True)
        await store.declare([low])
        assert ((await store.policies(QUEUE))[TASK].timeout_ms, (await _queue_settings(bench)).concurrency) == (7, 6)

    async def test_whoever_does_not_name_a_queue_leaves_its_settings(self, bench: Bench) -> None:
        await _settings(bench, 1, concurrency=5)
        for version in (0, 1, 9):
            await _unnamed(bench, version)
            assert (await _queue_settings(bench)).concurrency == 5
        await _unnamed(bench, 9, result_ttl_ms=60_000)
        found = await _queue_settings(bench)
        assert (found.concurrency, found.result_ttl_ms) == (5, 60_000)
        with pytest.raises(PolicyConflict, match="result_ttl_ms is 60000 in the store, and 70000 here"):
            await _unnamed(bench, 9, result_ttl_ms=70_000)
        await _unnamed(bench, 8, result_ttl_ms=70_000)
        await _settings(bench, 10, priority=3)
        found = await _queue_settings(bench)
        assert (found.concurrency, found.result_ttl_ms, found.priority) == (None, 3_600_000, 3)

    async def test_whoever_names_a_queue_decides_about_what_others_of_its_version_leave_open(
        self, bench: Bench
    ) -> None:
        await _settings(bench, 1, concurrency=5)
        await _unnamed(bench, 1, result_ttl_ms=60_000)
        await _settings(bench, 1, concurrency=5)
        assert (await _queue_settings(bench)).result_ttl_ms == 3_600_000
        await _settings(bench, 2, concurrency=None)
        assert (await _queue_settings(bench)).concurrency is None

    async def test_a_version_counts_though_it_changed_nothing(self, bench: Bench) -> None:
        await _settings(bench, 5, concurrency=5)
        await _settings(bench, 7, concurrency=5)
        await _settings(bench, 6, concurrency=6)
        assert (await _queue_settings(bench)).concurrency == 5
        await bench.declare(queue="tasks", version=5, retry={"failures": 5})
        await bench.declare(queue="tasks", version=7, retry={"failures": 5})
        await bench.declare(queue="tasks", version=6, retry={"failures": 6})
        assert (await bench.store.policies("tasks"))[TASK].retry.failures == 5

    async def test_an_operators_setting_wins_until_cleared_and_never_refuses_a_worker(self, bench: Bench) -> None:
        await _settings(bench, 1, concurrency=5, priority=3)
        await bench.store.configure(QUEUE, {"concurrency": 1})
        await _settings(bench, 2, concurrency=9, priority=4)
        assert ((await _queue_settings(bench)).concurrency, (await _queue_settings(bench)).priority) == (1, 4)
        (info,) = [info for info in await bench.store.queues() if info.name == QUEUE]
        assert info.overrides == {"concurrency": 1}
        settings = await bench.store.configure(QUEUE, {}, clear=("concurrency",))
        assert settings.concurrency == 9

    async def test_an_operators_setting_of_a_task_wins_until_cleared(self, bench: Bench) -> None:
        await bench.declare(version=1, retry={"failures": 5})
        assert (await bench.store.adjust(QUEUE, TASK, {"failures": 1})).retry.failures == 1
        await bench.declare(version=2, retry={"failures": 9})
        worker = await bench.session()
        assert (await bench.settle(worker, retry(await bench.take(worker, "j")))).state is State.FAILED
        assert (await bench.store.adjust(QUEUE, TASK, {}, clear=("failures",))).retry.failures == 9

    async def test_a_setting_that_cannot_be_is_refused(self, bench: Bench) -> None:
        for wrong in ({"concurrency": 0}, {"key_concurrency": -1}, {"nonsense": 1}, {"priority": 5000}, {"rate": 3}):
            with pytest.raises(ConfigError):
                await bench.store.configure(QUEUE, wrong)
        with pytest.raises(ConfigError):
            await bench.store.limit_key(QUEUE, "k", 0)

    # --- fail handlers

    @pytest.mark.parametrize("how", ["fail", "retry", "reap", "release", "claim"])
    async def test_a_permanent_failure_by_whatever_cause_enqueues_the_fail_handler(
        self, bench: Bench, how: str
    ) -> None:
        policy = Policy(retry=Retry(failures=1, stalls=1, releases=1), on_failure=("aid", "rescue"))
        worker, other = await bench.session(), await bench.session("aid", lease_ms=3_600_000)
        if how != "claim":
            await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: policy})])
        claimed = await bench.take(
            worker, "j", payload=b"original", envelope=carrying(headers={"trace": "1"}), priority=3, key="k"
        )
        await _fail_by(bench, worker, claimed, how, policy)
        assert await bench.state("j") is State.FAILED
        assert await bench.state("j", queue=QUEUE) is State.FAILED
        (rescue,) = await bench.claim(other, 5)
        assert (rescue.task, rescue.payload, rescue.envelope.headers["trace"]) == ("rescue", b"original", "1")
        told: dict[str, Any] = rescue.envelope.failed or {}
        assert (told["queue"], told["id"], told["run"], told["task"]) == (QUEUE, "j", claimed.lease.run, TASK)
        assert told["counters"]["attempts"] == 1
        assert sum(told["counters"].values()) == 2
        assert told["error"]["type"]
        assert (rescue.key, rescue.priority) == ("k", 3)
        assert (told["key"], told["priority"]) == ("k", 3)
        assert told["run_at_ms"] == (await bench.get("j")).run_at_ms
        await bench.settle(other, complete(rescue))
        assert await bench.claim(other, 5) == [], "once for each failed run"

    async def test_a_job_that_kills_its_worker_every_time_reaches_its_fail_handler(self, bench: Bench) -> None:
        policy = Policy(on_failure=("aid", "rescue"))
        await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: policy})])
        await bench.add("j")
        for _ in range(3):
            doomed = await bench.session()
            assert await bench.order(doomed) == ["j"]
            await bench.vanish(doomed)
        assert await bench.state("j") is State.FAILED
        assert len(await bench.claim(await bench.session("aid"))) == 1

    async def test_a_fail_handler_of_an_id_that_fails_again_runs_again(self, bench: Bench) -> None:
        policy = Policy(on_failure=(QUEUE, "rescue"))
        await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: policy})])
        worker = await bench.session()
        for _ in range(2):
            claimed = await bench.take(worker, "x" * 1000)
            await bench.settle(worker, fail(claimed))
            (rescue,) = await bench.claim(worker)
            assert rescue.task == "rescue"
            await bench.settle(worker, complete(rescue))
            bench.clock.advance(3601)

    @pytest.mark.parametrize("queue", [QUEUE, "aid"])
    async def test_a_fail_handler_takes_turns_by_its_jobs_key(self, bench: Bench, queue: str) -> None:
        policy = Policy(on_failure=(queue, "rescue"), on_failure_priority=-7)
        await bench.store.declare(
            [
                Declaration(queue=QUEUE, tasks={TASK: policy}, settings={"key_concurrency": 1}),
                Declaration(queue="aid", settings={"key_concurrency": 1}),
            ]
        )
        worker = await bench.session(QUEUE, "aid")
        for id in ("a", "b"):
            await bench.settle(worker, fail(await bench.take(worker, id, key="k")))
        await bench.add("keyless", queue=queue, priority=-9)
        turn = await bench.turn(worker, queues=[queue], room=5)
        assert sorted((each.task or "", each.key, each.priority) for each in turn.claimed) == [
            ("rescue", "k", -7), (TASK, None, -9)
        ]  # fmt: skip
        rescue = next(each for each in turn.claimed if each.key)
        await bench.settle(worker, complete(rescue))
        (other,) = (await bench.turn(worker, queues=[queue], room=5)).claimed
        assert (other.key, other.envelope.failed != rescue.envelope.failed) == ("k", True)

    async def test_a_fail_handler_is_not_its_own(self, bench: Bench) -> None:
        await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: Policy(on_failure=(QUEUE, "rescue"))})])
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        (rescue,) = await bench.claim(worker)
        await bench.settle(worker, fail(rescue))
        assert await bench.claim(worker) == []
        assert len((await bench.store.jobs(Filter(states=(State.FAILED,)))).jobs) == 2


async def _once(bench: Bench, counter: str) -> None:
    """The job `j` is started, and comes back or fails by this cause."""
    worker = await bench.session()
    (claimed,) = await bench.claim(worker)
    if counter == "stalls":
        await bench.vanish(worker)
    elif counter == "releases":
        await bench.settle(worker, release(claimed))
    else:
        await bench.settle(worker, retry(claimed, CAUSES[counter]))
        bench.clock.advance(300)


async def _fail_by(bench: Bench, worker: Session, claimed: Claimed, how: str, policy: Policy) -> None:
    if how == "reap":
        await bench.vanish(worker)
    elif how == "claim":
        await bench.settle(worker, retry(claimed))
        await bench.store.declare([Declaration(queue=QUEUE, tasks={TASK: policy})])
        bench.clock.advance(2)
        assert await bench.claim(worker) == []
    else:
        await bench.settle(worker, {"fail": fail, "retry": retry, "release": release}[how](claimed))  # type: ignore[operator]


async def _unnamed(bench: Bench, version: int, **settings: object) -> None:
    await bench.store.declare([Declaration(queue=QUEUE, version=version, settings=settings, partial=True)])


async def _settings(bench: Bench, version: int, **settings: object) -> None:
    await bench.store.declare([Declaration(queue=QUEUE, version=version, settings=settings)])


async def _queue_settings(bench: Bench):  # type: ignore[no-untyped-def]
    (info,) = [info for info in await bench.store.queues() if info.name == QUEUE]
    return info.settings
