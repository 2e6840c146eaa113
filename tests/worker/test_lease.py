"""Leases: heartbeats, eviction, and a store whose answers get lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import pytest
from support import PATIENCE, Flaky, Running, burst, eventually, evict, transitions, working

from holdfast import Counters, Holdfast, Job, Retry, State, StoreBusy, StoreError
from holdfast.guard import page
from holdfast.store import open_store
from holdfast.store.contract import Session, Turn
from holdfast.worker import Report
from holdfast.worker.heartbeat import Heartbeat


async def state_of(handle: Any) -> State:
    return (await handle.job()).state


# --- eviction


async def test_a_reaped_worker_aborts_its_handlers_and_goes_on_with_a_new_session(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    reasons: list[Any] = []
    heard: list[str] = []

    @app.task()
    async def long(job: Job) -> str:
        if job.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                reasons.append(job.signal.reason)
        return f"attempt {job.attempt}"

    app.on("lease_lost")(lambda happening: heard.append(happening.name))
    async with working(app, lease=0.6) as running:
        (before,) = await app.workers()
        handle = await long.enqueue()
        await eventually(lambda: running.worker.active)
        await evict(app)
        assert await handle.result() == "attempt 2"
        job = await handle.job()
        (after,) = await app.workers()
        report = await running.end()
        names = await transitions(app, handle.id)
    assert before.session.id != after.session.id
    assert reasons == ["lease_lost"]
    assert heard == ["lease_lost"]
    assert job.counters == Counters(attempts=2, stalls=1)
    assert names == ["enqueue", "claim", "reap", "claim", "complete"]
    assert report == Report(started=2, completed=1, lost=1)
    assert "this worker was declared dead" in caplog.text


async def test_the_completion_of_a_reaped_handler_does_not_count(app: Holdfast) -> None:
    """A thread cannot be stopped: it returns after it was reaped, and nobody believes it."""
    first, go = threading.Event(), threading.Event()

    @app.task()
    def long(job: Job) -> str:
        if job.attempt == 1:
            first.set()
            assert job.signal.wait_in_thread(20)
            assert job.signal.reason == "lease_lost"
            go.wait(20)
        return f"attempt {job.attempt}"

    async with working(app, lease=0.6, slots=2) as running:
        handle = await long.enqueue()
        await eventually(first.is_set)
        await evict(app)
        await eventually(lambda: running.worker._run.parts.runner.abandoned)  # type: ignore[union-attr]
        go.set()
        await eventually(lambda: not running.worker._run.parts.runner.abandoned)  # type: ignore[union-attr]
        assert await handle.result() != "attempt 1"
        assert (await transitions(app, handle.id)).count("complete") == 1


async def test_a_thread_that_was_given_up_keeps_its_slot(app: Holdfast) -> None:
    """Otherwise the next job would be claimed and then wait behind it, with a lease and no handler."""
    first, go = threading.Event(), threading.Event()

    @app.task()
    def long(job: Job) -> int:
        if job.attempt == 1:
            first.set()
            go.wait(20)
        return job.attempt

    async with working(app, lease=0.6, slots=1):
        (before,) = await app.workers()
        handle = await long.enqueue()
        await eventually(first.is_set)
        await evict(app)
        await eventually(lambda: _another_worker(app, before.session.id))
        assert await state_of(handle) is State.WAITING
        go.set()
        assert await handle.result() == 2


async def _another_worker(app: Holdfast, id: str) -> bool:
    return [info.session.id for info in await app.workers()] not in ([], [id])


async def test_a_worker_may_end_when_it_was_evicted(app: Holdfast) -> None:
    @app.task()
    async def long(job: Job) -> None:
        await asyncio.Event().wait()

    async with app:
        running = Running(app.worker(lease=0.6, on_evicted="exit"))
        handle = await long.enqueue()
        await eventually(lambda: running.worker.active)
        await evict(app)
        assert await asyncio.wait_for(running.task, 20) == Report(started=1, lost=1, out="evicted")
        assert await state_of(handle) is State.WAITING


async def test_a_worker_whose_registration_fails_tries_again(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def ping() -> str:
        return "pong"

    store.refuse("declare", StoreBusy("locked"), times=2)
    store.refuse("register", StoreBusy("locked"), times=2)
    async with working(app):
        assert await ping.call() == "pong"
    assert store.calls.count("register") == 3


async def test_an_evicted_worker_whose_store_is_away_registers_when_it_is_back(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def ping() -> str:
        return "pong"

    async with working(app, lease=0.6):
        (before,) = await app.workers()
        store.refuse("register", StoreError("away"), times=3)
        await evict(app)
        await eventually(lambda: _another_worker(app, before.session.id))
        assert await ping.call() == "pong"
        assert store.left("register") == 0


# --- heartbeats


async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(app: Holdfast, url: str) -> None:
    """Heartbeats come from a thread: the lease outlives a loop that stands still for longer than it."""
    stalls: list[int] = []

    @app.task()
    async def blocking(job: Job) -> str:
        stalls.append(job.counters.stalls)
        assert outlived.wait(PATIENCE), "the loop stands still, the very thing that is tested"
        return "done"

    reaper = Holdfast(url)

    def reap_all_the_while(until: threading.Event) -> None:
        async def reap() -> None:
            async with reaper:
                first = (await reaper.workers())[0].expires_at_ms
                while not until.is_set():
                    await reaper.store.reap("default")
                    if [worker for worker in await reaper.workers() if worker.expires_at_ms > first + 800]:
                        outlived.set()
                    until.wait(0.02)

        asyncio.run(reap())

    over, outlived = threading.Event(), threading.Event()
    thread = threading.Thread(target=reap_all_the_while, args=(over,))
    async with working(app, lease=0.4, wedged_after=30):
        thread.start()
        try:
            assert await blocking.call() == "done"
        finally:
            over.set()
            await asyncio.to_thread(thread.join)
    assert stalls == [0]


async def test_a_loop_that_is_wedged_past_its_limit_loses_its_jobs(
    app: Holdfast, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another worker finishes what a wedged one cannot, and the wedged one's completion does not count."""
    reaped = threading.Event()
    attempts = []
    another = Holdfast(f"{url}?synchronous=normal")  # by which nobody knows that it is in the same process

    @app.task()
    async def wedge(job: Job) -> str:
        attempts.append(job.attempt)
        elsewhere.start()
        reaped.wait(20)  # the whole loop stands still
        return "from the wedged one"

    @another.task(name="wedge")
    async def healthy(job: Job) -> str:
        attempts.append(job.attempt)
        reaped.set()
        return "from the healthy one"

    def work_elsewhere() -> Report:
        async def work() -> Report:
            async with another:
                running = Running(another.worker(lease=0.6, poll=0.05))
                await eventually(reaped.is_set)
                return await running.end()

        return asyncio.run(work())

    elsewhere = threading.Thread(target=work_elsewhere)
    async with working(app, lease=0.6, wedged_after=0.3, poll=300) as running:
        handle = await wedge.enqueue()
        result = await handle.result()
        await asyncio.to_thread(elsewhere.join)
        report = await running.end()
    assert result == "from the healthy one"
    assert attempts == [1, 2]
    assert report.lost == 1
    assert report.completed == 0
    assert "heartbeats stop until it moves again" in caplog.text


async def test_a_late_heartbeat_counts_when_nobody_has_reaped(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task()
    async def work() -> str:
        started.set()
        await go.wait()
        return "late but ours"

    async with working(app, lease=300):
        handle = await work.enqueue()
        await started.wait()
        for info in await app.workers():
            await app.store.database.write(  # type: ignore[attr-defined]
                lambda tx, id=info.session.id: tx.run("session", "expire_now", session=id, now=tx.now)
            )
        go.set()
        assert await handle.result() == "late but ours"
    assert "was over; nobody had taken its jobs" in caplog.text
    assert "(queues default)" in caplog.text


async def test_a_heartbeat_that_fails_is_followed_by_another(url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Flaky(open_store(url))
    store.twin = lambda: store
    app = Holdfast(store=store)

    @app.task()
    async def ping() -> str:
        return "pong"

    async with working(app, lease=0.3):
        store.refuse("extend", StoreBusy("locked"))
        store.refuse("extend", RuntimeError("a bug"))
        await eventually(lambda: store.left("extend") == 0)
        before = store.calls.count("extend")
        await eventually(lambda: store.calls.count("extend") > before)
        assert await ping.call() == "pong"
    assert "heartbeat_failed: the next is sent as usual: locked" in caplog.text


# --- a store that goes wrong


async def test_errors_of_the_store_never_end_the_loop(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)
    errors: list[Any] = []

    @app.task()
    async def ping(n: int) -> int:
        return n

    app.on("worker_error")(lambda happening: errors.append(happening.error))
    async with working(app):
        for error in (StoreBusy("locked"), StoreError("full"), RuntimeError("a bug in a store")):
            store.refuse("settle_and_claim", error, times=2)
            assert await asyncio.gather(*(ping.call(n) for n in range(5))) == list(range(5))
    assert [str(error) for error in errors] == ["locked"] * 2 + ["full"] * 2 + ["a bug in a store"] * 2


async def test_upkeep_that_fails_is_tried_again(url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)
    async with working(app, "default", lease=0.3):
        store.refuse("reap", StoreBusy("locked"))
        store.refuse("reap", RuntimeError("a bug"))
        await eventually(lambda: store.left("reap") == 0)
        before = store.calls.count("reap")
        await eventually(lambda: store.calls.count("reap") > before)
    assert "upkeep_failed: queue default; the next round tries again: locked" in caplog.text


async def test_a_burst_ends_although_the_store_did_not_always_answer(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def ping() -> None: ...

    async with app:
        await ping.enqueue()
        store.refuse("pending", StoreBusy("locked"), times=2)
        assert (await burst(app, poll=0.05)).completed == 1
    assert store.left("pending") == 0


@pytest.mark.parametrize("at_once", [1, 2, 4])
async def test_a_lost_reply_leaves_no_job_active_without_a_handler_and_settles_nothing_twice(
    url: str, at_once: int
) -> None:
    """Every third reply of settle_and_claim is lost: each job still runs, and ends, exactly once."""
    inner = open_store(url)
    inner.turns_at_once = at_once
    store = Flaky(inner)
    app = Holdfast(store=store)
    runs: dict[int, int] = {}

    @app.task()
    async def once(n: int) -> int:
        runs[n] = runs.get(n, 0) + 1
        await asyncio.sleep(0)
        return n

    turns = 0
    real = inner.settle_and_claim

    async def unreliable(*args: Any, **kwargs: Any) -> Any:
        nonlocal turns
        turns += 1
        turn = await real(*args, **kwargs)
        if turns % 3 == 0:
            raise StoreError("the reply was lost")
        return turn

    inner.settle_and_claim = unreliable  # type: ignore[method-assign]
    async with app:
        await once.enqueue_many(once.args(n) for n in range(60))
        report = await burst(app, slots=7, poll=0.05)
        info = await app.queue("default").info()
        assert info is not None
        assert info.counts["completed"] == 60
        names = [event.transition async for event in app.events()]
    assert turns > 9
    assert runs == dict.fromkeys(range(60), 1)
    assert names.count("claim") == names.count("complete") == 60
    assert (report.started, report.completed, report.lost) == (60, 60, 0)


@pytest.mark.parametrize("ending", ["retry", "snooze", "fail", "release"])
async def test_a_lost_reply_counts_each_ending_once(url: str, ending: str) -> None:
    from holdfast import Permanent, Snooze

    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task(retry=Retry(failures=5, initial=0))
    async def work(job: Job) -> int:
        if job.attempt == 1:
            store.lose("settle_and_claim", StoreError("the reply was lost"))
            if ending == "retry":
                raise ValueError("again")
            if ending == "snooze":
                raise Snooze(after=0)
            if ending == "fail":
                raise Permanent("over")
        return job.attempt

    async with app:
        if ending == "release":
            handle = await app.queue("default").enqueue({})  # a plain job, for which this app has no handler
            store.lose("settle_and_claim", StoreError("the reply was lost"), times=2)
            running = Running(app.worker(poll=0.05))
            await eventually(lambda: _is(handle, State.SCHEDULED))
            await eventually(lambda: store.left("settle_and_claim") == 0)
            await running.end()
            counters, names = (await handle.job()).counters, await transitions(app, handle.id)
            assert counters == Counters(attempts=names.count("claim")), "it is handed back free of charge"
            assert names == ["enqueue", *["claim", "release"] * counters.attempts]
            return
        handle = await work.enqueue()
        await burst(app, poll=0.05)
        job = await handle.job()
        names = await transitions(app, handle.id)
    assert names.count(ending) == 1
    expected = {
        "retry": (State.COMPLETED, Counters(attempts=2, failures=1)),
        "snooze": (State.COMPLETED, Counters(attempts=2)),
        "fail": (State.FAILED, Counters(attempts=1, failures=1)),
    }
    assert (job.state, job.counters) == expected[ending]


def _is(handle: Any, state: State) -> Awaitable[bool]:
    async def ask() -> bool:
        return (await handle.job()).state is state

    return ask()


async def test_a_lost_reply_of_an_enqueue_is_repeated_with_the_same_answer(url: str) -> None:
    """The request id makes it so: the second ask finds the first answer."""
    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def work(n: int) -> None: ...

    async with app:
        store.lose("enqueue", StoreError("the reply was lost"))
        with pytest.raises(StoreError, match="the reply was lost"):
            await work.options(job_id="x").enqueue(1)
        again = await work.options(job_id="x").enqueue(1)
        assert again.status == "duplicate", "the caller itself repeats, with a request of its own"
        assert (await app.queue("default").jobs()).jobs[0].id == "x"
        assert len((await app.queue("default").jobs()).jobs) == 1


async def test_a_heartbeat_that_finds_the_store_away_begins_when_it_is_back(app: Holdfast, url: str) -> None:
    heard: list[Any] = []
    session = Session(id="s1", name="w", host="h", pid=1, queues=("default",), lease_ms=15_000)
    away = Flaky(open_store(url))
    away.twin = lambda: away
    away.refuse("open", StoreError("the server cannot be reached"), 3)
    async with app:
        await app.store.register(session)
        heartbeat = Heartbeat(away, session, 0.01, 30, heard.append)  # type: ignore[arg-type]
        heartbeat.start()
        try:
            await eventually(lambda: heard)
        finally:
            await heartbeat.stop()
    assert not heard[0].evicted


async def test_a_heartbeat_that_cannot_have_an_event_loop_begins_when_it_can(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that is out of descriptors has no room for another loop: that must not end the heartbeats."""
    heard: list[Any] = []
    session = Session(id="s1", name="w", host="h", pid=1, queues=("default",), lease_ms=15_000)
    made, refused = asyncio.new_event_loop, iter([True, True, False])

    def loop() -> asyncio.AbstractEventLoop:
        if next(refused, False):
            raise OSError(24, "Too many open files")
        return made()

    monkeypatch.setattr(asyncio.events, "new_event_loop", loop)
    async with app:
        await app.store.register(session)
        heartbeat = Heartbeat(app.store, session, 0.01, 30, heard.append)
        heartbeat.start()
        try:
            await eventually(lambda: heard)
        finally:
            await heartbeat.stop()
    assert not heard[0].evicted
    assert "heartbeat_failed: this process can open nothing more" in caplog.text


async def test_a_claim_that_is_answered_after_its_lease_starts_no_handler(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was frozen in between, so that the job is others' by now: what it would do, would be done twice."""
    ahead, ran, claim = [0.0], [], app.store.settle_and_claim

    @app.task()
    async def work(job: Job) -> None:
        ran.append(job.attempt)

    async def frozen(*args: Any, **kwargs: Any) -> Turn:
        turn = await claim(*args, **kwargs)
        if turn.claimed and not ahead[0]:
            await evict(app)
            ahead[0] = 60.0
        return turn

    monkeypatch.setattr(app.store, "settle_and_claim", frozen)
    monkeypatch.setattr("holdfast.worker.pump.now", lambda: page.now() + ahead[0])
    async with working(app):
        await (await work.enqueue()).result(PATIENCE)
    assert ran == [2]
