"""How long results and ids are held, with the clock in the test's hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    ConfigError,
    Holdfast,
    Job,
    JobFailed,
    JobMissing,
    Permanent,
    QueueSettings,
    Reply,
    Retention,
    State,
)
from holdfast.testing import ManualClock, drain

Isolate = Callable[[Holdfast], Holdfast]


@pytest.fixture
def app(holdfast_isolate: Isolate) -> Holdfast:
    return holdfast_isolate(Holdfast("memory://"))


async def test_an_id_is_held_until_its_result_expires_and_then_free(app: Holdfast, holdfast_clock: ManualClock) -> None:
    runs = []

    @app.task(result_ttl=60)
    async def work(n: int) -> int:
        runs.append(n)
        return n

    once = work.options(job_id="x")
    async with app:
        await once.enqueue(1)
        await drain(app)
        holdfast_clock.advance(59.999)
        assert (await once.enqueue(2)).status == "completed"
        assert await work.result("x") == 1
        holdfast_clock.advance(0.001)
        with pytest.raises(JobMissing, match="or it has expired"):
            await work.result("x")
        assert (await once.enqueue(3)).status == "queued"
        await drain(app)
    assert runs == [1, 3]


@pytest.mark.parametrize("said_by", ["app", "queue", "task", "job", "handler", "operator", "afterwards"])
async def test_what_is_kept_for_ever_is_never_done_again(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock, said_by: str
) -> None:
    app = holdfast_isolate(Holdfast("memory://", result_ttl=math.inf if said_by == "app" else None))
    runs = []
    if said_by == "queue":
        app.queue("default", result_ttl=math.inf)

    @app.task(result_ttl=math.inf if said_by == "task" else None)
    async def work(job: Job, n: int) -> int:
        runs.append(n)
        if said_by == "handler":
            job.keep_result(math.inf)
        return n

    once = work.options(job_id="x", result_ttl=math.inf if said_by == "job" else None)
    async with app:
        if said_by == "operator":
            await app.queue("default").set(result_ttl=math.inf)
        await once.enqueue(1)
        await drain(app)
        if said_by == "afterwards":
            assert await app.queue("default").keep_result("x", math.inf) is Reply.OK
        holdfast_clock.advance(100 * 365 * 86400)
        await app.store.expire("default")
        assert (await once.enqueue(2)).status == "completed"
        assert await work.result("x") == 1
    assert runs == [1]


@pytest.mark.parametrize("ttl", [-1, math.nan, -math.inf, "1h", True, 1e13])
async def test_a_ttl_that_is_none_says_what_it_may_be(app: Holdfast, ttl: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"result_ttl=.*: give seconds from 0 on, or a timedelta, or math\.inf for ever"
    ):
        app.task(result_ttl=ttl)(lambda: None)


async def test_a_failed_id_is_free_after_its_ttl_and_its_dead_letter_stays(
    app: Holdfast, holdfast_clock: ManualClock
) -> None:
    @app.task(result_ttl=60)
    async def broken(n: int) -> int:
        if n == 1:
            raise Permanent("no")
        return n

    once = broken.options(job_id="x")
    async with app:
        dead = await once.enqueue(1)
        await drain(app)
        holdfast_clock.advance(59)
        with pytest.raises(JobFailed):
            await once.call(2)
        holdfast_clock.advance(1)
        anew = await once.enqueue(2)
        assert anew.status == "queued"
        await drain(app)
        assert await anew.result() == 2
        assert (await dead.job()).state is State.FAILED
        assert [(job.id, job.run) for job in (await app.jobs(state="failed")).jobs] == [("x", dead.run)]


async def test_a_result_may_be_kept_for_longer_afterwards(app: Holdfast, holdfast_clock: ManualClock) -> None:
    @app.task(result_ttl=60)
    async def work() -> str:
        return "kept"

    async with app:
        await work.options(job_id="x").enqueue()
        await drain(app)
        assert await app.queue("default").keep_result("x", 3600) is Reply.OK
        holdfast_clock.advance(3599)
        assert await work.result("x") == "kept"
        holdfast_clock.advance(1)
        with pytest.raises(JobMissing):
            await work.result("x")


async def test_the_producers_ttl_wins_over_the_handlers_task_but_not_over_its_word(
    app: Holdfast, holdfast_clock: ManualClock
) -> None:
    @app.task(result_ttl=60)
    async def work(job: Job, own: bool) -> None:
        if own:
            job.keep_result(600)

    async with app:
        plain = await work.options(result_ttl=120).enqueue(False)
        chosen = await work.options(result_ttl=120).enqueue(True)
        await drain(app)
        jobs = [await plain.job(), await chosen.job()]
    assert [(job.expires_at_ms or 0) - holdfast_clock.now_ms for job in jobs] == [120_000, 600_000]


async def test_what_has_expired_leaves_nothing_behind(app: Holdfast, holdfast_clock: ManualClock) -> None:
    @app.task(result_ttl=60)
    async def work(n: int) -> int:
        return n

    async with app:
        await work.enqueue_many(work.args(n) for n in range(2_500))
        await drain(app)
        holdfast_clock.advance(61)
        await drain(app)
        info = await app.queue("default").info()
        assert info is not None
        assert sum(info.counts.values()) == 0
        names = [event.transition async for event in app.events()]
    assert names.count("expire") == 2_500


async def test_dead_letters_are_kept_by_age_and_count(app: Holdfast, holdfast_clock: ManualClock) -> None:
    @app.task()
    async def broken() -> None:
        raise Permanent("no")

    queue = app.queue("default")
    async with app:
        await queue.set(retention=Retention(failed=100, failed_count=3), result_ttl=1)
        for n in range(5):
            await broken.options(job_id=str(n)).enqueue()
        await drain(app)
        holdfast_clock.advance(2)
        await drain(app)
        assert [job.id for job in (await queue.jobs(state="failed")).jobs] == ["4", "3", "2"]
        holdfast_clock.advance(100)
        await drain(app)
        assert (await queue.jobs()).jobs == []
        assert (await queue.set(clear=["retention", "result_ttl"])) == QueueSettings()


async def test_a_periodic_job_that_enqueues_itself_goes_on_through_failures(
    app: Holdfast, holdfast_clock: ManualClock
) -> None:
    """In its handler and in its fail handler: so it runs for ever."""
    ticks: list[str] = []

    @app.task()
    async def recover(job: Job) -> None:
        ticks.append("recovered")
        await tick.options(job_id=f"tick-{len(ticks)}", delay=60).enqueue()

    @app.task(on_failure=recover)
    async def tick() -> None:
        if len(ticks) == 2:
            raise Permanent("the third one fails")
        ticks.append("tick")
        await tick.options(job_id=f"tick-{len(ticks)}", delay=60).enqueue()

    async with app:
        await tick.enqueue()
        for _ in range(5):
            await drain(app)
            holdfast_clock.advance(60)
    assert ticks == ["tick", "tick", "recovered", "tick", "tick"]
