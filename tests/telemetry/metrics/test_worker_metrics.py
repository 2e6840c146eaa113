"""What a real worker counts, on every store, and shows on its port."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import STORES, place
from probe import Scrape, ask, scrape
from support import Flaky, declare_dead, eventually, working

from holdfast import Continued, Every, Holdfast, Job, Permanent, Retry, Snooze
from holdfast.errors import StoreBusy
from holdfast.telemetry.metrics.process import process_metrics

QUICK = Retry(failures=2, initial=0.01)


@pytest.fixture(params=STORES)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of each kind."""
    with place(request.param, tmp_path) as url:
        yield url


async def test_a_worker_counts_every_end_of_an_attempt(here: str) -> None:
    app = Holdfast(here)
    tries: list[str] = []

    @app.task(queue="ends", retry=QUICK)
    async def run(how: str) -> str:
        tries.append(how)
        if how == "retried" and tries.count(how) == 1:
            raise ValueError("once")
        if how == "failed":
            raise ValueError("always")
        if how == "permanent":
            raise Permanent("never")
        if how == "snoozed" and tries.count(how) == 1:
            raise Snooze(after=0.01)
        return how

    before = Scrape(process_metrics())
    async with working(app, metrics_port=0) as running:
        jobs = [await run.enqueue(how) for how in ("fine", "retried", "failed", "permanent", "snoozed")]
        await run.options(delay=0.02).call("later")
        for job in jobs:
            await eventually(lambda job=job: _over(job), "it has ended")
        url = running.worker.urls[0]
        now = await eventually(lambda: _settled(url, before, 6), "all ends are counted")
        store = await scrape(f"{url}/metrics/store")

    def grown(name: str, **labels: str) -> float:
        labels["queue"] = "ends"
        return (now.value(name, **labels) or 0) - (before.value(name, **labels) or 0)

    assert grown("holdfast_jobs_enqueued_total", task="run") == 6
    assert grown("holdfast_jobs_started_total", task="run") == 9
    assert grown("holdfast_jobs_completed_total", task="run") == 4
    assert grown("holdfast_jobs_retried_total", cause="failure") == 2
    assert grown("holdfast_jobs_failed_total", cause="failure") == 1
    assert grown("holdfast_jobs_failed_total", cause="permanent") == 1
    assert grown("holdfast_jobs_snoozed_total") == 1
    assert grown("holdfast_job_wait_seconds_count") == 9
    assert grown("holdfast_job_run_seconds_count") == 9
    assert grown("holdfast_job_schedule_lag_seconds_count") == 4  # two retries, a snooze, a delay
    assert store.value("holdfast_queue_jobs", queue="ends", state="completed") == 4
    assert store.value("holdfast_queue_jobs", queue="ends", state="failed") == 2
    assert store.value("holdfast_store_up") == 1
    assert store.value("holdfast_store_workers") == 1
    assert store.value("holdfast_queue_workers", queue="ends") == 1


async def _over(job: object) -> bool:
    return (await job.job()).state.finished  # type: ignore[attr-defined, no-any-return]


async def _settled(url: str, before: Scrape, count: int) -> Scrape | None:
    now = await scrape(f"{url}/metrics")
    names = ("holdfast_jobs_completed_total", "holdfast_jobs_failed_total")
    grown = sum((now.value(name, queue="ends") or 0) - (before.value(name, queue="ends") or 0) for name in names)
    return now if grown == count else None


async def test_slots_and_running_handlers_are_those_of_the_moment(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task(queue="slots")
    async def wait() -> None:
        await gate.wait()

    async with working(app, slots=5, name="w", metrics_port=0) as running:
        await wait.enqueue_many(wait.args() for _ in range(3))
        await eventually(lambda: running.worker.active == 3)
        now = await scrape(f"{running.worker.urls[0]}/metrics")
        assert now.value("holdfast_worker_slots", worker="w", state="used") == 3
        assert now.value("holdfast_worker_slots", worker="w", state="free") == 2
        assert now.value("holdfast_worker_running", worker="w") == 3
        assert now.value("holdfast_worker_info", worker="w") == 1
        gate.set()
    assert Scrape(process_metrics()).value("holdfast_worker_info", worker="w") is None


async def test_an_attempt_that_was_taken_away_is_lost_and_its_job_stalled(url: str) -> None:
    app = Holdfast(url)
    starts: list[int] = []

    @app.task(queue="stalls")
    async def wait() -> None:
        starts.append(1)
        if len(starts) == 1:
            await asyncio.Event().wait()

    before = Scrape(process_metrics())

    def grown(name: str) -> float:
        return (Scrape(process_metrics()).value(name, queue="stalls") or 0) - (before.value(name, queue="stalls") or 0)

    async with working(app, metrics_port=0):
        job = await wait.enqueue()
        await eventually(lambda: starts)
        await declare_dead(app)
        await eventually(lambda: _over(job))
    assert grown("holdfast_jobs_lost_total") == 1
    assert grown("holdfast_jobs_started_total") == 2


async def test_calls_to_the_store_are_timed_and_their_errors_counted(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="calls")
    async def fine() -> None: ...

    before = Scrape(process_metrics())
    flaky = Flaky(app.store)
    app.store = flaky  # type: ignore[assignment]
    flaky.refuse("settle_and_claim", StoreBusy("away"), 2)
    async with working(app, metrics_port=0) as running:
        await fine.call()
        settled = before.value("holdfast_turn_settled_sum") or 0
        await eventually(lambda: (Scrape(process_metrics()).value("holdfast_turn_settled_sum") or 0) > settled)
        now = await scrape(f"{running.worker.urls[0]}/metrics")
    errors = now.value("holdfast_store_errors_total", call="settle_and_claim")
    assert (errors or 0) - (before.value("holdfast_store_errors_total", call="settle_and_claim") or 0) == 2
    for name in ("holdfast_turn_claimed_sum", "holdfast_turn_settled_sum"):
        assert (now.value(name) or 0) - (before.value(name) or 0) >= 1
    assert (now.value("holdfast_store_call_duration_seconds_count", call="settle_and_claim") or 0) > 0


async def test_hostile_names_forge_no_sample(app: Holdfast) -> None:
    @app.task(queue="odd", name='x"} 1\nholdfast_forged 7')
    async def odd() -> None: ...

    async with working(app, metrics_port=0) as running:
        await odd.call()  # its caller may hear of the end before its worker does
        await eventually(lambda: Scrape(process_metrics()).value("holdfast_jobs_completed_total", queue="odd"))
        reply = await ask(f"{running.worker.urls[0]}/metrics")
    assert not [line for line in reply.body.split("\n") if line.startswith("holdfast_forged")]
    assert Scrape(reply.body).value("holdfast_jobs_completed_total", queue="odd") == 1


async def test_without_anybody_who_looks_nothing_is_counted(app: Holdfast) -> None:
    @app.task(queue="unseen")
    async def fine() -> None: ...

    async with working(app):
        await fine.call()
    assert Scrape(process_metrics()).value("holdfast_jobs_started_total", queue="unseen") is None


async def test_a_producer_counts_what_it_enqueues_and_what_was_there(url: str) -> None:
    app = Holdfast(url, metrics=True)

    @app.task(queue="made")
    async def fine() -> None: ...

    async with app:
        for _ in range(3):
            await fine.options(job_id="one").enqueue()
        await fine.enqueue_many(fine.args() for _ in range(4))
    found = Scrape(process_metrics())
    assert found.value("holdfast_jobs_enqueued_total", queue="made", task="fine") == 5
    assert found.value("holdfast_jobs_conflicts_total", queue="made", outcome="duplicate") == 2
    assert found.value("holdfast_store_call_duration_seconds_count", call="enqueue")


async def test_the_next_job_of_a_chain_is_counted_as_enqueued(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="second")
    async def last() -> int:
        return 1

    @app.task(queue="first")
    async def first(job: Job) -> Continued[int]:
        return job.continue_with(last)

    async with working(app, metrics_port=0):
        await first.call()
    assert Scrape(process_metrics()).value("holdfast_jobs_enqueued_total", queue="second", task="last") == 1


async def test_ticks_and_triggers_of_a_schedule_are_counted_as_enqueued(here: str) -> None:
    app = Holdfast(here)

    @app.task(queue="ticked")
    async def beat() -> None: ...

    app.schedule("often", Every(0.1), beat.args())

    def enqueued() -> float:
        return Scrape(process_metrics()).value("holdfast_jobs_enqueued_total", queue="ticked", task="beat") or 0

    before = enqueued()
    async with working(app, metrics_port=0):
        await eventually(lambda: enqueued() >= before + 2, "ticks are counted")
        await app.schedules.pause("often")
        ticked = len((await app.jobs(queue="ticked", limit=100)).jobs)
        await eventually(lambda: enqueued() == before + ticked, "each tick is counted once")
        await app.schedules.trigger("often")
        assert enqueued() == before + ticked + 1
