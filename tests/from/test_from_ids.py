"""What docs/from says of ids: what is held, what is dropped, what an update changes."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime

import pytest
from support import eventually, working

from holdfast import ConfigError, Dedup, Holdfast, Job, JobMissing, Permanent
from holdfast.testing import ManualClock, drain

HOUR = 3600
DAY = 24 * HOUR


async def test_a_finished_id_is_held_for_an_hour(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> str:
        return "done"

    once = work.options(job_id="a")
    async with app:
        await once.enqueue()
        assert len(await drain(app)) == 1
        clock.advance(HOUR - 1)
        again = await once.enqueue()
        assert (again.status, await again.result()) == ("completed", "done")
        clock.advance(1)
        assert (await once.enqueue()).status == "queued"


@pytest.mark.parametrize(("ttl", "status"), [(7 * DAY, "completed"), (math.inf, "completed"), (3 * DAY, "queued")])
async def test_a_longer_result_ttl_holds_the_id_for_longer(
    app: Holdfast, clock: ManualClock, ttl: float, status: str
) -> None:
    @app.task(result_ttl=ttl)
    async def work() -> None: ...

    once = work.options(job_id="a")
    async with app:
        await once.enqueue()
        await drain(app)
        clock.advance(5 * DAY)
        await drain(app)
        assert (await once.enqueue()).status == status


async def test_keep_drops_the_second_payload(app: Holdfast) -> None:
    @app.task()
    async def work(number: int) -> int:
        return number

    once = work.options(job_id="a")
    async with app:
        assert (await once.enqueue(1)).status == "queued"
        assert (await once.enqueue(2)).status == "duplicate"
        assert [ran.result for ran in await drain(app)] == [1]


async def test_a_failed_id_is_held_unless_it_is_requeued(app: Holdfast) -> None:
    @app.task()
    async def work(number: int) -> int:
        if number == 1:
            raise Permanent("no")
        return number

    once = work.options(job_id="a")
    async with app:
        await once.enqueue(1)
        await drain(app)
        again = await once.enqueue(2)
        assert (again.status, again.state) == ("duplicate", "failed")
        assert await drain(app) == []
        assert (await once.options(on_failed="requeue").enqueue(2)).status == "requeued"
        assert [ran.result for ran in await drain(app)] == [2]


async def test_a_cancelled_id_is_free_at_once(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    once = work.options(job_id="a")
    async with app:
        handle = await once.enqueue()
        assert await handle.cancel()
        assert (await once.enqueue()).status == "queued"


async def test_without_an_id_every_enqueue_is_a_job_of_its_own(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        first, second = await work.enqueue(), await work.enqueue()
        assert first.id != second.id
        assert len(await drain(app)) == 2


async def test_the_answer_says_queued_duplicate_or_completed(app: Holdfast) -> None:
    @app.task()
    async def work() -> int:
        return 7

    once = work.options(job_id="a")
    async with app:
        first, second = await once.enqueue(), await once.enqueue()
        assert (first.status, second.status, second.state) == ("queued", "duplicate", "waiting")
        await drain(app)
        third = await once.enqueue()
        assert (third.status, third.state, await third.result()) == ("completed", "completed", 7)


async def test_an_update_replaces_what_waits(app: Holdfast) -> None:
    @app.task()
    async def work(number: int) -> int:
        return number

    once = work.options(job_id="a", on_conflict="update")
    async with app:
        await once.enqueue(1)
        assert (await once.enqueue(2)).status == "updated"
        assert [ran.result for ran in await drain(app)] == [2]


async def test_an_update_of_a_running_job_runs_after_it(app: Holdfast) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    at_once: list[int] = []
    most = 0

    @app.task()
    async def work(number: int) -> int:
        nonlocal most
        at_once.append(number)
        most = max(most, len(at_once))
        started.set()
        await go_on.wait()
        at_once.remove(number)
        return number

    once = work.options(job_id="a", on_conflict="update")
    async with working(app):
        first = await once.enqueue(1)
        await started.wait()
        second = await once.enqueue(2)
        assert (second.status, (await first.job()).successor) == ("successor", True)
        go_on.set()
        assert (await first.result(), await second.result()) == (1, 2)
    assert most == 1


async def test_an_update_of_a_finished_id_runs_anew(app: Holdfast) -> None:
    @app.task()
    async def work(number: int) -> int:
        return number

    once = work.options(job_id="a", on_conflict="update")
    async with app:
        first = await once.enqueue(1)
        await drain(app)
        second = await once.enqueue(2)
        assert (second.status, second.run > first.run) == ("queued", True)
        assert [ran.result for ran in await drain(app)] == [2]


async def test_update_payload_false_keeps_the_first_payload(app: Holdfast) -> None:
    @app.task()
    async def work(number: int) -> int:
        return number

    once = work.options(job_id="a", on_conflict="update")
    async with app:
        await once.enqueue(1)
        assert (await once.options(update_payload=False).enqueue(2)).status == "updated"
        assert [ran.result for ran in await drain(app)] == [1]


@pytest.mark.parametrize(
    ("rule", "asked", "held"),
    [(True, 10, 10), (False, 10, 60), ("if_later", 10, 60), ("if_later", 90, 90), ("if_earlier", 10, 10),
     ("if_earlier", 90, 60)],
)  # fmt: skip
async def test_update_run_at_moves_the_time_as_it_says(
    app: Holdfast, clock: ManualClock, rule: bool | str, asked: int, held: int
) -> None:
    @app.task()
    async def work() -> None: ...

    once = work.options(job_id="a", on_conflict="update", update_run_at=rule)
    async with app:
        await once.options(delay=60).enqueue()
        handle = await once.options(delay=asked).enqueue()
        assert (await handle.job()).run_at_ms == clock.now_ms + held * 1000


@pytest.mark.parametrize(
    ("options", "failures"), [({}, 0), ({"update_payload": False}, 1), ({"reset_counts": False}, 1)]
)
async def test_counts_are_reset_when_the_payload_is_replaced(
    app: Holdfast, clock: ManualClock, options: dict[str, bool], failures: int
) -> None:
    @app.task()
    async def work() -> None:
        raise ValueError

    once = work.options(job_id="a", on_conflict="update")
    async with app:
        await once.enqueue()
        await drain(app)
        handle = await once.options(**options).enqueue()
        assert (await handle.job()).counters.failures == failures


async def test_a_time_that_is_past_means_now(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.options(run_at=0).enqueue()
        assert (handle.state, (await handle.job()).run_at_ms) == ("waiting", clock.now_ms)


async def test_instants_are_seconds_or_have_a_zone(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None: ...

    at = clock.now_ms // 1000 + 60
    async with app:
        for given in (at, datetime.fromtimestamp(at, UTC)):
            handle = await work.options(run_at=given).enqueue()
            assert (await handle.job()).run_at_ms == at * 1000
        with pytest.raises(ConfigError, match="zone"):
            await work.options(run_at=datetime.fromtimestamp(at)).enqueue()


async def test_an_id_is_any_text(app: Holdfast) -> None:
    @app.task()
    async def work(job: Job) -> str:
        return job.id

    async with app:
        await work.options(job_id="Ann's mail / März #1").enqueue()
        assert [ran.result for ran in await drain(app)] == ["Ann's mail / März #1"]


async def test_a_dedup_key_finds_a_job_whatever_its_id(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        first = await work.options(dedup=Dedup("k")).enqueue()
        second = await work.options(dedup=Dedup("k")).enqueue()
        assert (second.status, second.id) == ("duplicate", first.id)


async def test_one_id_never_runs_twice_at_once_over_two_workers(app: Holdfast) -> None:
    now: set[int] = set()
    most: list[int] = []
    gate = asyncio.Semaphore(0)

    @app.task()
    async def work(job: Job, number: int) -> int:
        now.add(job.run)
        most.append(len(now))
        await gate.acquire()
        now.discard(job.run)
        return number

    once = work.options(job_id="a", on_conflict="update")
    async with working(app), working(app):
        for number in range(5):
            handle = await once.enqueue(number)
            await eventually(lambda: now)
            gate.release()
        for _ in range(5):
            gate.release()
        assert await handle.result() == 4
    assert set(most) == {1}


async def test_a_job_that_is_gone_is_missing(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.options(job_id="a").enqueue()
        await drain(app)
        clock.advance(HOUR)
        await drain(app)
        with pytest.raises(JobMissing):
            await handle.job()
        with pytest.raises(JobMissing):
            await app.status("default", "never was there")
