"""`start` and `stop` beside `run`: a worker in the background of a program, as the lifespan of a web server."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from support import PATIENCE, Flaky, Running, eventually

from holdfast import ConfigError, Holdfast, Job, PolicyConflict, Retry, State, StoreError
from holdfast.store import open_store
from holdfast.worker import Report


def pinging(url: str) -> tuple[Holdfast, Any]:
    app = Holdfast(url)

    @app.task()
    async def ping() -> str:
        return "pong"

    return app, ping


async def test_a_started_worker_claims_and_a_stopped_one_has_ended(url: str) -> None:
    app, ping = pinging(url)
    worker = app.worker()
    async with app:
        assert not worker.running
        await worker.start()
        assert worker.running
        assert worker.healthy
        assert len(await app.workers()) == 1, "it is known to the store when start returns"
        assert await ping.call() == "pong"
        assert await worker.stop() == Report(started=1, completed=1)
        assert not worker.running
        assert await app.workers() == []


async def test_a_worker_opens_the_app_for_as_long_as_it_works(url: str) -> None:
    app, ping = pinging(url)
    async with app.worker() as worker:
        assert await ping.call() == "pong"
        assert worker.running
    assert not worker.running
    assert app.loop is None


async def test_start_and_stop_are_idempotent_and_it_may_start_again(url: str) -> None:
    app, ping = pinging(url)
    worker = app.worker()
    async with app:
        assert await worker.stop() == Report(), "one that never ran has done nothing"
        for _ in range(3):
            await asyncio.gather(worker.start(), worker.start())
            await worker.start()
            assert len(await app.workers()) == 1
            assert await ping.call() == "pong"
            reports = await asyncio.gather(worker.stop(), worker.stop(), worker.stopped())
            assert reports == [Report(started=1, completed=1)] * 3
            assert await worker.stop() == reports[0], "what it did is still known"


async def test_a_stop_drains_as_a_signal_does(app: Holdfast) -> None:
    go = asyncio.Event()

    @app.task()
    async def work() -> str:
        await go.wait()
        return "done"

    async with app, app.worker(drain=600) as worker:
        handle = await work.enqueue()
        await eventually(lambda: worker.active)
        ending = asyncio.ensure_future(worker.stop())
        await eventually(lambda: worker._run is not None and worker._run.stopping is not None)
        assert worker.running, "it drains"
        go.set()
        assert await asyncio.wait_for(ending, PATIENCE) == Report(started=1, completed=1)
        assert await handle.result() == "done"


async def test_a_stop_without_a_drain_hands_back_at_once(app: Holdfast) -> None:
    @app.task()
    async def long(job: Job) -> None:
        await job.signal.wait()
        job.signal.check()

    async with app:
        worker = app.worker(drain=600)
        await worker.start()
        handle = await long.enqueue()
        await eventually(lambda: worker.active)
        assert await asyncio.wait_for(worker.stop(drain=False), PATIENCE) == Report(started=1, released=1)
        assert (await handle.job()).state is State.WAITING


async def test_a_start_raises_what_keeps_the_worker_from_starting(url: str) -> None:
    app, _ = pinging(url)
    other = Holdfast(url)

    @other.task(name="ping", retry=Retry(failures=7))
    async def ping() -> None: ...

    async with app, app.worker(), other:
        worker = other.worker()
        with pytest.raises(PolicyConflict, match="ping"):
            await worker.start()
        assert not worker.running
        with pytest.raises(PolicyConflict):
            await worker.start()


async def test_a_start_waits_for_a_store_that_is_away_and_a_stop_ends_that(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def ping() -> None: ...

    worker = app.worker()
    store.refuse("register", StoreError("away"), 10**6)
    async with app:
        starting = asyncio.ensure_future(worker.start())
        await eventually(lambda: "register" in store.calls)
        assert not starting.done()
        assert await asyncio.wait_for(worker.stop(), PATIENCE) == Report()
        await asyncio.wait_for(starting, PATIENCE)
        assert not worker.running
        store._plans.clear()
        await asyncio.wait_for(worker.start(), PATIENCE)
        assert worker.healthy
        await worker.stop()


async def test_a_start_that_is_cancelled_leaves_nothing_running(url: str) -> None:
    store = Flaky(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def ping() -> None: ...

    worker = app.worker(grace=0.1)
    store.refuse("register", StoreError("away"), 10**6)
    async with app:
        starting = asyncio.ensure_future(worker.start())
        await eventually(lambda: "register" in store.calls)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not worker.running


async def test_a_worker_that_ends_by_an_error_says_so_at_once_and_to_who_stops_it(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = pinging(url)
    worker = app.worker()
    async with app:
        await worker.start()
        broken = RuntimeError("broken")

        def raising(*args: Any, **kwargs: Any) -> Any:
            raise broken

        monkeypatch.setattr(app.store, "leave", raising)
        worker.stop()
        with pytest.raises(RuntimeError, match="broken"):
            await worker.stopped()
        assert not worker.running
        with pytest.raises(RuntimeError, match="broken"):
            await worker.stop()
    assert f"worker {worker.name} ended: broken" in caplog.text


async def test_run_and_start_know_of_each_other(url: str) -> None:
    app, _ = pinging(url)
    async with app:
        worker = app.worker()
        await worker.start()
        with pytest.raises(ConfigError, match="this worker runs already"):
            await worker.run()
        await worker.stop()
        running = Running(worker)
        await eventually(lambda: worker.healthy)
        await worker.start()
        assert len(await app.workers()) == 1
        assert await worker.stop() == await running.task


async def test_a_started_worker_hears_signals_when_asked(url: str) -> None:
    app, _ = pinging(url)
    async with app:
        worker = app.worker()
        await worker.start(signals=True)
        signal.raise_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.stopped(), PATIENCE) == Report()
        assert await worker.stop() == Report()


def test_a_program_without_a_loop_starts_and_stops_a_worker(url: str) -> None:
    app, ping = pinging(url)
    worker = app.worker()
    with app.sync:
        app.sync(worker.start())
        assert app.sync(ping.call()) == "pong"
        assert app.sync(worker.stop()) == Report(started=1, completed=1)


async def test_a_stop_may_be_awaited_in_another_loop(url: str) -> None:
    app, ping = pinging(url)
    worker = app.worker()
    async with app:
        await worker.start()
        assert await ping.call() == "pong"

        async def elsewhere() -> Report:
            return await worker.stop()

        assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == Report(started=1, completed=1)
