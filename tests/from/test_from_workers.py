"""What docs/from says of workers: slots, shutdown, signals, middleware, hooks, logs."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
from places import STORES, place
from support import eventually, working

from holdfast import Counters, Every, Holdfast, Job, JobMissing, Next, Worker
from holdfast.testing import ManualClock, drain


async def test_a_worker_runs_ten_jobs_at_once(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task()
    async def work() -> None:
        await gate.wait()

    async with working(app) as running:
        handles = [await work.enqueue() for _ in range(12)]
        await eventually(lambda: running.worker.active == 10)
        info = await app.queue("default").info()
        gate.set()
        for handle in handles:
            await handle.result()
    assert info is not None
    assert (info.counts["active"], info.counts["waiting"]) == (10, 2)


async def test_one_slot_is_one_job_at_a_time(app: Holdfast) -> None:
    now, most = 0, 0

    @app.task()
    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    async with working(app, slots=1):
        for handle in [await work.enqueue() for _ in range(5)]:
            await handle.result()
    assert most == 1


async def test_a_job_is_claimed_only_when_it_can_start(app: Holdfast) -> None:
    gate = asyncio.Event()
    running: set[str] = set()

    @app.task()
    async def work(job: Job) -> None:
        running.add(job.id)
        await gate.wait()

    async with working(app, slots=2):
        handles = [await work.enqueue() for _ in range(5)]
        await eventually(lambda: len(running) == 2)
        active = {job.id for job in (await app.jobs(state="active")).jobs}
        gate.set()
        for handle in handles:
            await handle.result()
    assert active <= running
    assert len(active) == 2


async def test_a_worker_without_a_list_serves_every_queue_of_its_app(app: Holdfast) -> None:
    @app.task(queue="mail")
    async def mail() -> str:
        return "mail"

    @app.task(queue="photos")
    async def photo() -> str:
        return "photo"

    assert set(app.worker().queues) == {"mail", "photos"}
    assert app.worker(["mail"]).queues == ("mail",)
    async with working(app):
        assert (await mail.call(), await photo.call()) == ("mail", "photo")


async def test_a_pause_between_claims_is_an_option(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    assert default("claim_interval") == 0
    async with working(app, slots=1, claim_interval=0.01):
        for handle in [await work.enqueue() for _ in range(3)]:
            await handle.result()


async def test_several_workers_share_one_process(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task()
    async def work() -> None:
        await gate.wait()

    async with app, app.worker(slots=1, name="one") as one, app.worker(slots=1, name="two") as two:
        handles = [await work.enqueue() for _ in range(2)]
        await eventually(lambda: one.active == two.active == 1)
        gate.set()
        for handle in handles:
            await handle.result()


def default(name: str) -> Any:
    """Return what a worker does unless it is told otherwise."""
    return inspect.signature(Worker).parameters[name].default


def test_a_stop_lets_handlers_finish_for_thirty_seconds_and_then_tells_them() -> None:
    assert (default("drain"), default("grace")) == (30, 5)


def test_an_idle_worker_looks_again_after_a_second() -> None:
    assert default("poll") == 1


async def test_what_does_not_end_in_time_is_handed_back_and_counts_a_release(app: Holdfast) -> None:
    @app.task()
    async def work() -> None:
        await asyncio.Event().wait()

    async with working(app, drain=0, grace=0.01) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        report = await running.end()
        job = await handle.job()
    assert (report.released, job.state, job.counters) == (1, "waiting", Counters(attempts=1, releases=1))


@pytest.mark.parametrize("reason", ["cancelled", "timeout", "deleted", "completed_elsewhere", "shutdown"])
async def test_the_signal_says_why_a_handler_should_stop(app: Holdfast, reason: str) -> None:
    reasons: list[str | None] = []

    @app.task(timeout=0.01 if reason == "timeout" else None)
    async def work(job: Job) -> None:
        try:
            await job.signal.wait()
        finally:
            reasons.append(job.signal.reason)

    async with working(app, drain=0, grace=1, lease=0.3) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active or reasons)
        if reason == "cancelled":
            await handle.cancel(running="signal")
        elif reason == "deleted":
            await app.queue("default").delete(handle.id)
        elif reason == "completed_elsewhere":
            await app.complete_chain("default", handle.id)
        elif reason == "shutdown":
            running.worker.stop()
        await eventually(lambda: reasons)
    assert reasons == [reason]


async def test_middleware_wraps_each_attempt_first_added_outermost(app: Holdfast) -> None:
    order: list[str] = []

    def layer(name: str) -> None:
        @app.middleware
        async def around(job: Job, next: Next) -> Any:
            order.append(f"{name} before {job.id}")
            result = await next()
            order.append(f"{name} after")
            return result

    layer("first")
    layer("second")

    @app.task()
    async def work() -> None:
        order.append("handler")

    async with app:
        await work.options(job_id="a").enqueue()
        await drain(app)
    assert order == ["first before a", "second before a", "handler", "second after", "first after"]


async def test_a_worker_may_have_middleware_of_its_own(app: Holdfast) -> None:
    order: list[str] = []

    @app.middleware
    async def outer(job: Job, next: Next) -> Any:
        order.append(f"app in {job.worker}")
        return await next()

    async def inner(job: Job, next: Next) -> Any:
        order.append(f"worker in {job.worker}")
        return await next()

    @app.task()
    async def work() -> None: ...

    async with working(app, name="mail-1", middleware=[inner]):
        await work.call()
    assert order == ["app in mail-1", "worker in mail-1"]


@pytest.mark.parametrize("name", ["holdfast", "myapp.jobs"])
async def test_a_worker_logs_where_it_is_told_to(app: Holdfast, caplog: pytest.LogCaptureFixture, name: str) -> None:
    @app.task()
    async def work() -> None:
        await asyncio.Event().wait()

    given = {} if name == "holdfast" else {"logger": name}
    async with working(app, drain=0, grace=0.01, **given) as running:
        await work.enqueue()
        await eventually(lambda: running.worker.active)
        await running.end()
    assert {record.name for record in caplog.records if "still run" in record.getMessage()} == {name}


async def test_a_job_of_an_unknown_task_goes_to_a_worker_that_knows_it(tmp_path: Path) -> None:
    old, new = Holdfast(f"memory://{tmp_path.name}"), Holdfast(f"memory://{tmp_path.name}")
    old.task(name="first")(lambda: None)

    @new.task(name="second")
    async def second(job: Job) -> Counters:
        return job.counters

    async with working(old), working(new):
        handles = [await second.enqueue() for _ in range(20)]
        counters = [await handle.result() for handle in handles]
    assert {(each.failures, each.stalls, each.releases) for each in counters} == {(0, 0, 0)}


async def test_workers_start_and_stop_in_the_background(app: Holdfast) -> None:
    @app.task()
    async def work() -> str:
        return "done"

    async with app:
        worker = app.worker()
        await worker.start()
        assert await work.call() == "done"
        assert (await worker.stop()).completed == 1


@pytest.mark.parametrize("kind", STORES)
async def test_an_idle_worker_is_woken_by_an_enqueue(kind: str, tmp_path: Path) -> None:
    """The worker would look again after ten minutes: whatever comes sooner was told by the store."""
    with place(kind, tmp_path) as url:
        app = Holdfast(url)

        @app.task()
        async def work(number: int) -> int:
            return number

        async with working(app, poll=600):
            for number in range(3):
                assert await work.call(number) == number


async def test_hooks_tell_of_workers(app: Holdfast) -> None:
    heard: list[str] = []
    app.on("*")(lambda happening: heard.append(happening.name))

    @app.task()
    async def work() -> None: ...

    async with working(app):
        await work.call()
    assert heard[0] == "worker_started"
    assert "worker_stopped" in heard


async def test_a_schedule_fires_by_itself(app: Holdfast, clock: ManualClock) -> None:
    @app.task()
    async def work() -> str:
        return "tick"

    app.schedule("pulse", Every(60), work.args())
    async with app:
        await drain(app)
        clock.advance(60)
        assert [ran.result for ran in await drain(app)] == ["tick"]


async def test_deleting_takes_a_job_in_whatever_state(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        await work.options(job_id="a").enqueue()
        assert await app.queue("default").delete("a")
        with pytest.raises(JobMissing):
            await app.status("default", "a")
