"""What a hook is told of an attempt: its task, its counters, its times, its outcome; and ends that did not count."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from process_case import ledger, store, tasks  # noqa: F401
from support import Flaky, Running, burst, eventually, evict, ledger_lines, working

from holdfast import Counters, HandlerRaised, Holdfast, HookEvent, Job, Permanent, Retry, Snooze, StoreBusy
from holdfast.store import open_store
from holdfast.store.contract import Session

both = pytest.mark.parametrize("place", ["memory", "file"])


@pytest.fixture
def app(place: str, url: str, tmp_path: Path) -> Holdfast:
    return Holdfast(url if place == "file" else f"memory://{tmp_path.name}")


def heard_by(target: Any, *names: str) -> list[HookEvent]:
    heard: list[HookEvent] = []
    for name in names:
        target.on(name)(heard.append)
    return heard


@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
async def test_a_hook_is_told_what_is_known_of_an_attempt(tasks: ModuleType, executor: str) -> None:  # noqa: F811
    heard = heard_by(tasks.app, "claim", "retry", "complete")
    task = tasks.fails_twice[executor]
    async with working(tasks.app, pool=1):
        handle = await task.enqueue()
        await handle.result()
        await eventually(lambda: len(heard) == 6)
        kept = (await handle.job()).counters
    assert {(each.id, each.run, each.task) for each in heard} == {(handle.id, handle.run, task.name)}
    told = [(each.name, each.attempt, each.counters) for each in heard]
    assert told == [
        ("claim", 1, Counters(attempts=1)),
        ("retry", 1, Counters(attempts=1, failures=1)),
        ("claim", 2, Counters(attempts=2, failures=1)),
        ("retry", 2, Counters(attempts=2, failures=2)),
        ("claim", 3, Counters(attempts=3, failures=2)),
        ("complete", 3, kept),
    ]
    assert all(each.waited is not None and each.waited >= 0 for each in heard)
    assert [each.ran is not None and each.ran > 0 for each in heard] == [False, True] * 3
    errors = [each.error for each in heard if each.name == "retry"]
    assert {type(error) for error in errors} == {HandlerRaised if executor == "process" else LookupError}
    assert [str(error)[-9:] for error in errors] == ["attempt 1", "attempt 2"]
    assert [each.result for each in heard] == [None] * 5 + [["found"]]


@both
async def test_each_end_counts_in_the_record_what_it_counts_in_the_store(app: Holdfast) -> None:
    heard = heard_by(app, "retry", "fail", "snooze", "complete")
    raised: list[Any] = [ValueError("one"), Snooze(after=0), ValueError("two"), Permanent("three")]

    @app.task(retry=Retry(initial=0, failures=5))
    async def work(job: Job) -> None:
        raise raised[job.attempt - 1]

    @app.task(retry=Retry(timeouts=1), timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with app:
        handle, late = await work.enqueue(), await slow.enqueue()
        await burst(app)
        kept, timed = (await handle.job()).counters, (await late.job()).counters
    of_work = [each for each in heard if each.id == handle.id]
    assert [(each.name, each.error) for each in of_work] == [
        ("retry", raised[0]), ("snooze", None), ("retry", raised[2]), ("fail", raised[3]),
    ]  # fmt: skip
    assert of_work[-1].counters == kept == Counters(attempts=4, failures=3)
    (slowly,) = [each for each in heard if each.id == late.id]
    assert (slowly.name, slowly.counters, type(slowly.error).__name__) == ("fail", timed, "TimedOut")
    assert timed == Counters(attempts=1, timeouts=1)


@both
async def test_an_end_that_came_too_late_is_told(app: Holdfast) -> None:
    heard = heard_by(app, "lost", "retry")

    worker = app.worker(["default"])

    @app.task()
    async def work(job: Job) -> None:
        worker._run.parts.runner.abort = lambda *told: None  # type: ignore[union-attr, method-assign]  # the word of it is late
        await app.complete_chain("default", job.id)
        raise ValueError("of no interest")

    async with app:
        handle = await work.options(job_id="x").enqueue()
        report = await worker.run(burst=True)
    (lost,) = heard
    assert (lost.name, lost.queue, lost.id, lost.run, lost.attempt) == ("lost", "default", "x", handle.run, 1)
    assert (lost.task, lost.state, lost.counters, report.lost) == (work.name, None, Counters(attempts=1), 1)
    assert str(lost.error) == "of no interest"
    assert lost.detail == "its retry came too late: stale"


@both
async def test_an_end_that_cannot_count_any_more_is_told(app: Holdfast) -> None:
    heard = heard_by(app, "lost", "complete")

    @app.task()
    async def work(job: Job) -> None:
        await app.delete_chain("default", job.id)
        await asyncio.Event().wait()

    async with app:
        handle = await work.options(job_id="x").enqueue()
        await burst(app, lease=0.6)
    (lost,) = heard
    assert (lost.name, lost.id, lost.run, lost.attempt) == ("lost", "x", handle.run, 1)
    assert (lost.error, lost.detail) == (None, "deleted: nothing that its handler says counts any more")


async def test_an_eviction_tells_of_each_handler_that_ran(tasks: ModuleType, ledger: Path) -> None:  # noqa: F811
    async with working(tasks.app, lease=0.6, pool=1) as running:
        heard = heard_by(running.worker, "lost")
        handles = {name: await task.enqueue() for name, task in tasks.awaits_the_end.items()}
        await eventually(lambda: len(ledger_lines(ledger, "waits")) == len(handles))
        await evict(tasks.app)
        assert [await handle.result() for handle in handles.values()] == ["done"] * 3
        report = await running.end()
    assert {(each.id, each.attempt, each.detail) for each in heard} == {
        (handle.id, 1, "its worker was declared dead") for handle in handles.values()
    }
    assert {each.task for each in heard} == {task.name for task in tasks.awaits_the_end.values()}
    assert all(each.ran is not None and each.ran > 0 for each in heard)
    assert report.lost == len(heard) == 3


async def test_an_eviction_tells_of_each_end_that_the_store_had_not_heard_of(url: str) -> None:
    store = Flaky(open_store(url))  # noqa: F811
    app = Holdfast(store=store)

    @app.task(retry=Retry(initial=0))
    async def work(job: Job) -> str:
        if job.attempt == 1:
            store.refuse("settle_and_claim", StoreBusy("locked"), times=10**6)
        return "done"

    async with app:
        running = Running(app.worker(lease=0.6))
        heard = heard_by(running.worker, "lost", "lease_lost")
        handle = await work.enqueue()
        await eventually(lambda: "settle_and_claim" in store._plans)
        await evict(app)
        await eventually(lambda: heard)
        store._plans.clear()
        assert await handle.result() == "done"
        await running.end()
    assert [(each.name, each.id, each.attempt) for each in heard] == [
        ("lost", handle.id, 1),
        ("lease_lost", None, None),
    ]


@both
async def test_nothing_is_kept_for_hooks_that_nobody_has(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    app.on("worker_started")(lambda happening: None)
    async with working(app) as running:
        remembered: list[Any] = []
        assert running.worker._run is not None
        outcomes = running.worker._run.parts.outcomes
        count = outcomes.count_all
        outcomes.count_all = lambda *args: (remembered.extend(outcomes._records), count(*args))  # type: ignore[method-assign]
        await work.call()
        await eventually(lambda: outcomes.report.completed == 1)
    assert remembered == []


@both
async def test_each_job_of_a_vanished_worker_is_told_by_its_id(app: Holdfast) -> None:
    heard = heard_by(app, "reap")

    @app.task()
    async def work() -> None: ...

    @app.task(retry=Retry(stalls=1))
    async def brittle() -> None: ...

    async with app:
        handles = [await task.options(job_id=task.fn.__name__).enqueue() for task in (work, brittle)]
        session = Session(id="w", name="w", host="h", pid=1, queues=("default",), slots=1)
        await app.store.register(session)
        for _ in handles:
            await app.store.settle_and_claim(session, [], ("default",), 1)
        await app.store.database.write(  # type: ignore[attr-defined]
            lambda tx: tx.run("session", "expire_now", session="w", now=tx.now)
        )
        await burst(app)
    told = [(each.queue, each.id, each.run, each.attempt, each.task, each.state) for each in heard]
    assert told == [
        ("default", "work", handles[0].run, 1, work.name, "waiting"),
        ("default", "brittle", handles[1].run, 1, brittle.name, "failed"),
    ]
    assert all(each.worker is not None for each in heard)
    assert {each.counters for each in heard} == {Counters(attempts=1, stalls=1)}
    assert all(each.ran is not None and each.ran >= 0 for each in heard)
