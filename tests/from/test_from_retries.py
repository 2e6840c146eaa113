"""What docs/from says of retries, failures and fail handlers."""

from __future__ import annotations

import pytest

from holdfast import Counters, Holdfast, Job, Permanent, Retention, Retry, RetryAt, Snooze
from holdfast.testing import ManualClock, drain

DAY = 24 * 3600


class Broken(Exception):
    """What handlers here raise."""


async def starts(app: Holdfast, clock: ManualClock, most: int = 30) -> list[float]:
    """Return the seconds between the attempts of the newest job of an app, until it has ended, at most so many."""
    before, waits = clock.now_ms, list[float]()
    for _ in range(most):
        await drain(app)
        job = (await app.jobs()).jobs[0]
        if job.state.finished:
            break
        clock.advance((job.run_at_ms - clock.now_ms) / 1000)
        waits.append((clock.now_ms - before) / 1000)
        before = clock.now_ms
    return waits


async def test_the_third_failure_is_final(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None:
        raise Broken

    async with app:
        handle = await work.enqueue()
        await starts(app, clock)
        job = await handle.job()
    assert (job.state, job.counters) == ("failed", Counters(attempts=3, failures=3))


async def test_ten_retries_are_eleven_failures(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(failures=11))
    async def work() -> None:
        raise Broken

    async with app:
        handle = await work.enqueue()
        assert len(await starts(app, clock)) == 10
        assert (await handle.job()).state == "failed"


async def test_without_a_limit_a_job_is_retried_for_ever(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(failures=None))
    async def work() -> None:
        raise Broken

    async with app:
        handle = await work.enqueue()
        await starts(app, clock, 25)
        job = await handle.job()
    assert (job.state, job.counters.failures) == ("scheduled", 25)


async def test_the_wait_begins_at_two_seconds_and_doubles_to_five_minutes(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(failures=11))
    async def work() -> None:
        raise Broken

    async with app:
        await work.enqueue()
        assert await starts(app, clock) == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


async def test_a_backoff_from_ten_seconds_is_one_word(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(failures=8, initial=10))
    async def work() -> None:
        raise Broken

    async with app:
        await work.enqueue()
        assert await starts(app, clock) == [10, 20, 40, 80, 160, 300, 300]


async def test_no_wait_at_all_is_one_word(app: Holdfast) -> None:
    @app.task(retry=Retry(initial=0))
    async def work() -> None:
        raise Broken

    async with app:
        await work.enqueue()
        assert [ran.outcome for ran in await drain(app)] == ["retried", "retried", "failed"]


def test_stalls_and_timeouts_have_three_each_and_releases_a_hundred(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    policy = work.policy().retry
    assert (policy.stalls, policy.timeouts, policy.releases) == (3, 3, 100)


async def test_a_retry_of_one_job_replaces_the_tasks_as_a_whole(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(failures=10, initial=60))
    async def work() -> None:
        raise Broken

    async with app:
        await work.options(retry=Retry(failures=3)).enqueue()
        assert await starts(app, clock) == [2, 4]


async def test_a_snooze_counts_no_failure_and_has_no_limit(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work(job: Job) -> int:
        if job.attempt < 20:
            raise Snooze(after=60)
        return job.counters.failures

    async with app:
        handle = await work.enqueue()
        assert await starts(app, clock) == [60] * 19
        assert await handle.result() == 0


async def test_snoozes_may_have_a_limit(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(snoozes=5))
    async def work() -> None:
        raise Snooze(after=60)

    async with app:
        handle = await work.enqueue()
        assert await starts(app, clock) == [60] * 4
        assert (await handle.job()).state == "failed"


class Later(Exception):
    """An error that says when to try again, as Queasy's do."""

    def __init__(self, retry_at: float) -> None:
        super().__init__("later")
        self.retry_at = retry_at


@pytest.mark.parametrize("way", ["attribute", "RetryAt"])
async def test_a_failure_may_set_its_own_time_and_counts(app: Holdfast, clock: ManualClock, way: str) -> None:
    @app.task()
    async def work() -> None:
        raise Later(clock.now_ms / 1000 + 45) if way == "attribute" else RetryAt(delay=45, error=Broken())

    async with app:
        handle = await work.enqueue()
        assert await starts(app, clock) == [45, 45]
        job = await handle.job()
    assert (job.state, job.counters.failures) == ("failed", 3)


async def test_all_attempts_may_have_one_limit_together(app: Holdfast, clock: ManualClock) -> None:
    @app.task(retry=Retry(attempts=4, failures=3))
    async def work(job: Job) -> None:
        if job.attempt % 2:
            raise Snooze(after=60)
        raise Broken

    async with app:
        handle = await work.enqueue()
        await starts(app, clock)
        job = await handle.job()
    assert (job.state, job.counters.attempts, job.counters.failures) == ("failed", 4, 2)


class OfTheirKind(Exception):
    """An error that says itself that no retry would help."""

    kind = "permanent"


@pytest.mark.parametrize("error", [Permanent("no"), OfTheirKind("no"), ZeroDivisionError("no")])
async def test_a_permanent_error_is_not_retried(app: Holdfast, error: Exception) -> None:
    @app.task(retry=Retry(permanent=(ArithmeticError,)))
    async def work() -> None:
        raise error

    async with app:
        handle = await work.enqueue()
        assert [ran.outcome for ran in await drain(app)] == ["failed"]
        job = await handle.job()
    assert job.error is not None
    assert (job.error.kind, job.error.message) == ("permanent", "no")


async def test_an_idempotency_key_is_the_same_in_every_attempt(app: Holdfast, clock: ManualClock) -> None:
    """A payment provider that knows a key charges once, however often the handler runs; another run is another key."""
    charged: dict[str, int] = {}

    @app.task()
    async def charge(job: Job, cents: int) -> None:
        charged.setdefault(f"{job.queue}/{job.id}/{job.run}", cents)
        if job.attempt < 3:
            raise Broken("charged, but the answer was lost")

    async with app:
        first = await charge.options(job_id="order-7").enqueue(500)
        await starts(app, clock)
        second = await charge.options(job_id="order-7", on_conflict="update").enqueue(900)
        await starts(app, clock)
    assert charged == {f"default/order-7/{first.run}": 500, f"default/order-7/{second.run}": 900}


async def test_a_job_that_will_be_retried_is_failing(app: Holdfast) -> None:
    @app.task()
    async def work() -> None:
        raise Broken("so it is")

    async with app:
        handle = await work.enqueue()
        await drain(app)
        job = await handle.job()
    assert (job.state, job.failing) == ("scheduled", True)


async def test_the_next_attempt_sees_the_last_error_and_counters_by_cause(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work(job: Job) -> str:
        if job.attempt == 1:
            raise Broken("so it is")
        assert job.last_error is not None
        return f"{job.counters.failures} {job.counters.stalls} {job.counters.timeouts} {job.last_error.message}"

    async with app:
        handle = await work.enqueue()
        await starts(app, clock)
        assert await handle.result() == "1 0 0 so it is"


async def test_a_handler_knows_that_this_is_its_last_attempt(app: Holdfast, clock: ManualClock) -> None:
    last: list[bool] = []

    @app.task()
    async def work(job: Job) -> None:
        last.append(job.last_attempt)
        raise Broken

    async with app:
        await work.enqueue()
        await starts(app, clock)
    assert last == [False, False, True]


async def test_a_fail_handler_has_the_same_arguments_and_the_failed_job(app: Holdfast) -> None:
    @app.task(queue="mail-fail")
    async def sorry(job: Job, to: str) -> list[object]:
        failed = job.failed
        assert failed is not None
        assert (failed.key, failed.priority) == (job.key, job.priority) == ("ann", 5)
        return [to, failed.queue, failed.id, failed.counters.failures, failed.error.message, failed.error.kind]

    @app.task(queue="mail", on_failure=sorry)
    async def send(to: str) -> None:
        raise Permanent("no such address")

    async with app:
        handle = await send.options(job_id="m", key="ann", priority=5).enqueue("ann")
        first, second = await drain(app)
        assert (first.outcome, second.id) == ("failed", f"m/failed/{handle.run}")
        assert second.result == ["ann", "mail", "m", 1, "no such address", "permanent"]


def test_a_fail_handler_is_tried_a_hundred_times(app: Holdfast) -> None:
    @app.task()
    async def sorry() -> None: ...

    @app.task(on_failure=sorry)
    async def work() -> None: ...

    retry = sorry.policy().retry
    assert (retry.failures, retry.initial, retry.maximum) == (100, 10, 900)


async def test_a_failed_job_stays_listed_for_ninety_days(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None:
        raise Permanent("no")

    async with app:
        await work.enqueue()
        await drain(app)
        clock.advance(90 * DAY - 1)
        await drain(app)
        assert len((await app.jobs(state="failed")).jobs) == 1
        clock.advance(1)
        await drain(app)
        assert (await app.jobs(state="failed")).jobs == []
    assert Retention().failed_count is None


async def test_failed_jobs_are_run_again_by_requeue(app: Holdfast) -> None:
    broken = True

    @app.task()
    async def work() -> str:
        if broken:
            raise Permanent("no")
        return "done"

    async with app:
        await work.options(job_id="a").enqueue()
        await drain(app)
        broken = False
        assert [id for _, id, _ in await app.requeue(queue="default")] == ["a"]
        assert [ran.result for ran in await drain(app)] == ["done"]


async def test_limits_change_for_jobs_that_wait(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None:
        raise Broken

    async with app:
        handle = await work.enqueue()
        await drain(app)
        await work.adjust(failures=5)
        await starts(app, clock)
        assert (await handle.job()).counters.failures == 5


async def test_a_periodic_job_may_enqueue_itself(app: Holdfast, clock: ManualClock) -> None:
    """The pattern of handlers and fail handlers that dispatch the next run of their own id."""
    ran: list[int] = []

    @app.task(retry=Retry(failures=1))
    async def tick(number: int) -> None:
        ran.append(number)
        await tick.options(job_id="tick", on_conflict="update", delay=60).enqueue(number + 1)
        if number == 1:
            raise Broken

    async with app:
        await tick.options(job_id="tick").enqueue(0)
        for _ in range(4):
            await drain(app)
            clock.advance(60)
    assert ran == [0, 1, 2, 3]
