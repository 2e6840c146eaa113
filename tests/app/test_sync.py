"""The synchronous facade: scripts, threads, `def` handlers; never inside an event loop."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from support import burst, run, working

from holdfast import ConfigError, Holdfast, Job, JobMissing, State, StoreClosed, StoreError


@pytest.fixture
def double(app: Holdfast) -> Any:
    @app.task()
    async def double(n: int) -> int:
        return n * 2

    return double


def test_plain_code_enqueues_waits_and_looks(app: Holdfast, double: Any) -> None:
    with app.sync:
        handle = app.sync(double.options(job_id="x").enqueue(4))
        assert handle.status == "queued"
        assert app.sync(app.worker().run(burst=True)).completed == 1
        assert app.sync(handle.result()) == 8
        assert app.sync(double.status("x")).state is State.COMPLETED
        assert [event.transition for event in app.sync.each(app.events())] == ["enqueue", "claim", "complete"]
        with pytest.raises(JobMissing):
            app.sync(double.status("y"))


def test_the_facade_opens_at_the_first_call_and_opens_again_after_close(app: Holdfast, double: Any) -> None:
    others = set(threading.enumerate())
    assert app.sync(double.enqueue(1)).status == "queued"
    app.sync.close()
    app.sync.close()
    assert app.sync(double.enqueue(1)).status == "queued"
    app.sync.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-sync" and thread not in others]


def test_many_threads_share_one_facade(app: Holdfast, double: Any) -> None:
    with app.sync, ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda n: app.sync(double.enqueue(n)), range(100)))
        app.sync(app.worker().run(burst=True))
        assert list(pool.map(lambda handle: app.sync(handle.result()), handles)) == [2 * n for n in range(100)]


def test_bulk_from_plain_code(app: Holdfast, double: Any) -> None:
    with app.sync:
        assert app.sync(double.enqueue_many(double.args(n) for n in range(1000))).queued == 1000


def test_a_reader_may_leave_an_endless_iterator(app: Holdfast, double: Any) -> None:
    with app.sync:
        app.sync(double.enqueue(1))
        for event in app.sync.each(app.events(follow=True)):
            assert event.transition == "enqueue"
            break
        half_way = app.sync.each(app.events(follow=True))
        assert next(half_way).transition == "enqueue"
    assert app.loop is None
    del half_way
    gc.collect()
    assert app.loop is None, "leaving it does not open the app again"


async def test_a_def_handler_uses_it_inside_a_worker(app: Holdfast, double: Any) -> None:
    @app.task()
    def parent(job: Job, n: int) -> int:
        app.sync(job.progress(0.5, "asking"))
        app.sync(job.save({"n": n}))
        value: int = app.sync(double.call(n))
        return value + 1

    async with working(app):
        assert await parent.call(4) == 9


async def test_it_is_refused_inside_an_event_loop(app: Holdfast, double: Any) -> None:
    with pytest.raises(ConfigError, match=r"app\.sync\(\.\.\.\) was called inside an event loop"):
        app.sync(double.enqueue(1))

    @app.task()
    async def wrong() -> str:
        try:
            app.sync(double.enqueue(1))
        except ConfigError as error:
            return str(error)
        return "it was allowed"

    async with working(app):
        assert "use await" in await wrong.call()
        assert "use await" in await wrong.call()


def test_an_error_at_opening_is_raised_and_the_next_call_tries_again(url: str, path: Any) -> None:
    app = Holdfast(url.replace("jobs.db", "folder/jobs.db"))
    with pytest.raises(StoreError, match="its folder does not exist; create"):
        app.sync(app.queues())
    (path.parent / "folder").mkdir()
    assert app.sync(app.queues()) == []
    app.sync.close()


async def test_it_serves_threads_beside_an_open_app(app: Holdfast, double: Any) -> None:
    async with app:
        handle = await asyncio.to_thread(lambda: app.sync(double.enqueue(3)))
        await burst(app)
        assert await handle.result() == 6


def test_an_app_that_the_facade_opened_is_not_opened_in_another_loop(app: Holdfast, double: Any) -> None:
    with app.sync:

        async def use() -> None:
            with pytest.raises(ConfigError, match="open in another event loop"):
                await app.open()

        run(use())


def test_a_job_in_a_transaction_of_the_caller_opens_nothing(app: Holdfast, double: Any, path: Any) -> None:
    """Opening waits for a lock on the file, which the caller's own transaction has."""
    with app.sync:
        pass  # makes the tables
    others = set(threading.enumerate())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        handle = app.sync(double.options(connection=connection).enqueue(1))
        counts = app.sync(app.enqueue_many([double.args(2)], connection=connection))
        assert (handle.status, counts.queued) == ("queued", 1)
        assert app.loop is None
        connection.commit()
    assert {each.name for each in set(threading.enumerate()) - others} <= {"holdfast-commit"}
    assert len(app.sync(app.jobs()).jobs) == 2
    app.sync.close()


async def test_a_home_that_starts_while_the_app_is_opened_elsewhere_says_so(app: Holdfast) -> None:
    """It waited for its own opening, for ever; a caller who asked for it goes to where the app is open."""
    async with app:
        error = await asyncio.to_thread(lambda: app.sync.home.start().exception(20))
        assert isinstance(error, ConfigError)
        assert await asyncio.to_thread(lambda: app.sync(where())) is asyncio.get_running_loop()


def test_a_caller_in_a_home_that_ends_is_told_so(app: Holdfast) -> None:
    """It waited for the lock of whoever ended the home, who waited for the home's loop."""
    with pytest.raises(StoreClosed, match="was closed while this call was on its way"):
        app.sync(app.sync.home.open())
    app.sync.close()


async def where() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
