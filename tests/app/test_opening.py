"""An app that nobody opens: it opens by itself, once for the process, whatever loops and threads its callers have."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from process_case import url_of
from support import eventually

from holdfast import ConfigError, Holdfast, JobTimeout, State, StoreClosed, StoreError, Task
from holdfast.store.other_loop import done_in

every_store = pytest.mark.parametrize("kind", ["sqlite", "redis", "postgresql"])


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return url_of(kind, tmp_path)


@pytest.fixture(autouse=True)
def other_threads() -> Iterator[None]:
    others.update(threads_named_home())
    yield
    others.clear()


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    made = Holdfast(url)
    yield made
    made.sync.close()


@pytest.fixture
def double(app: Holdfast) -> Task[[int], int]:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    return double


@pytest.fixture
def worker(url: str, app: Holdfast, double: Task[[int], int]) -> Iterator[None]:
    """A worker of the same jobs, with an app and a loop of its own."""
    other = Holdfast(url)
    other.task(name="double")(double.fn)
    begun, running = threading.Event(), other.worker(grace=0.2, drain=5)
    running.on("worker_started")(lambda happening: begun.set())
    thread = threading.Thread(target=lambda: asyncio.run(running.run()))
    thread.start()
    assert begun.wait(20)
    yield
    running.stop()
    thread.join()


others: set[threading.Thread] = set()
"""Threads of apps that tests before this one have dropped unclosed, and that the collector has not met yet."""


def threads_named_home() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-sync"]


def home_threads() -> list[threading.Thread]:
    return [thread for thread in threads_named_home() if thread not in others]


@every_store
async def test_a_script_enqueues_waits_and_looks(app: Holdfast, double: Task[[int], int], worker: None) -> None:
    handle = await double.options(job_id="x").enqueue(4)
    assert await handle.result() == 8
    assert await double.call(5) == 10
    assert (await double.status("x")).state is State.COMPLETED
    assert [event.transition async for event in app.queue("default").events(job_id="x")] == [
        "enqueue", "claim", "complete",
    ]  # fmt: skip
    assert (await double.enqueue_many(double.args(n) for n in range(100))).queued == 100
    assert [queue.name for queue in await app.queues()] == ["default"]
    assert await asyncio.to_thread(lambda: app.sync(double.call(6))) == 12
    assert len(home_threads()) == 1


@every_store
def test_each_view_may_have_a_loop_of_its_own(app: Holdfast, double: Task[[int], int], worker: None) -> None:
    """As async views have under a synchronous server."""
    asyncio.run(double.call(0))
    before = set(threading.enumerate())
    assert [asyncio.run(double.call(n)) for n in range(20)] == [2 * n for n in range(20)]
    assert set(threading.enumerate()) == before


@every_store
def test_many_threads_with_loops_of_their_own_open_it_once(app: Holdfast, double: Task[[int], int]) -> None:
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda n: asyncio.run(_awaited(double.enqueue(n))), range(40)))
    assert {handle.status for handle in handles} == {"queued"}
    assert len(home_threads()) == 1


def test_nobody_sees_the_loop_of_an_opening_before_the_opening_itself(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that did would take the app for open."""
    seen: list[bool] = []
    has_begun, opened, scheduled = threading.Event(), app.client.open, asyncio.run_coroutine_threadsafe

    async def open() -> None:
        seen.append(app.sync.home.is_open)
        has_begun.set()
        await opened()

    def slowly(*args: Any) -> Any:
        """The starting thread is held up after it has said what is to be done."""
        future = scheduled(*args)
        has_begun.wait(0.2)
        return future

    monkeypatch.setattr(app.client, "open", open)
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", slowly)
    app.sync.home.start().result(20)
    assert seen == [True]


@every_store
def test_an_open_elsewhere_takes_it_over_and_later_calls_open_it_again(app: Holdfast, double: Task[[int], int]) -> None:
    async def use() -> None:
        await double.enqueue(1)
        assert len(home_threads()) == 1
        async with app:
            assert home_threads() == []
            assert app.loop is asyncio.get_running_loop()
            await double.enqueue(2)
            assert (await app.worker().run(burst=True)).completed == 2
        await double.enqueue(3)
        assert len(home_threads()) == 1
        await app.close()
        assert home_threads() == []
        assert app.loop is None

    asyncio.run(use())


def test_a_worker_runs_where_plain_code_used_the_app_before(app: Holdfast, double: Task[[int], int]) -> None:
    app.sync(double.enqueue(1))
    assert asyncio.run(app.worker().run(burst=True)).completed == 1
    assert home_threads() == []


def test_a_block_of_the_facade_keeps_it(app: Holdfast, double: Task[[int], int]) -> None:
    with app.sync, pytest.raises(ConfigError, match="open in another event loop"):
        asyncio.run(_awaited(app.open()))


async def test_what_keeps_it_from_opening_is_raised_and_the_next_call_tries_again(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/folder/jobs.db")
    for _ in range(2):
        with pytest.raises(StoreError, match="its folder does not exist; create"):
            await app.queues()
    await eventually(lambda: not home_threads())
    (tmp_path / "folder").mkdir()
    assert await app.queues() == []
    await app.close()


async def test_one_caller_who_leaves_does_not_spoil_it_for_others(app: Holdfast, double: Task[[int], int]) -> None:
    first, second = asyncio.ensure_future(double.enqueue(1)), asyncio.ensure_future(double.enqueue(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).status == "queued"


@every_store
async def test_a_waiter_in_another_loop_leaves_no_watch_behind(app: Holdfast, double: Task[[int], int]) -> None:
    handle = await double.enqueue(1)
    with pytest.raises(JobTimeout):
        await handle.result(0.05)
    waiting = app.client._waiting
    await eventually(lambda: (handle.queue, handle.id, handle.run) in waiting._left and not waiting._leaving)


async def test_an_app_that_is_dropped_takes_its_thread_along(url: str) -> None:
    app = Holdfast(url)
    assert await app.queues() == []
    assert len(home_threads()) == 1
    del app

    def is_gone() -> bool:
        gc.collect()  # again and again: its thread may have held it at the first time
        return not home_threads()

    await eventually(is_gone)


def test_work_of_a_loop_that_ends_is_told_from_a_cancellation() -> None:
    loop = asyncio.new_event_loop()

    async def use() -> None:
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        work = asyncio.ensure_future(done_in(loop, asyncio.Event().wait()))
        await eventually(lambda: asyncio.all_tasks(loop))
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        with pytest.raises(StoreClosed, match="the event loop in which the store was opened has ended"):
            await work
        again = asyncio.ensure_future(done_in(loop, asyncio.Event().wait()))
        await eventually(lambda: asyncio.all_tasks(loop))
        again.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again
        await eventually(lambda: not asyncio.all_tasks(loop))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        with pytest.raises(StoreClosed, match="open the app in a loop that lives as long as its callers"):
            await done_in(loop, asyncio.sleep(0))

    asyncio.run(use())


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


FORKS = """
import asyncio, os, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1])

@app.task
async def add(n: int) -> int:
    return n

async def use(n):
    await add.options(job_id=str(n)).enqueue(n)

asyncio.run(use(0))
children = []
for n in range(1, 4):
    child = os.fork()
    if child == 0:
        asyncio.run(use(n))
        app.sync(add.options(job_id=f"{n}-sync").enqueue(n))
        app.sync.close()
        os._exit(0)
    children.append(child)
asyncio.run(use(4))
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
asyncio.run(use(5))
print(len(asyncio.run(app.jobs(limit=50)).jobs))
"""
EXITS = """
import asyncio, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1])
print(asyncio.run(app.queues()))
"""


def script(text: str, *args: str) -> tuple[int, str, str]:
    options = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        [sys.executable, *options, "-c", text, *args], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr


@every_store
def test_forks_open_it_for_themselves(url: str) -> None:
    """As workers of gunicorn do that load the app before they fork."""
    assert script(FORKS, url) == (0, "9", "")


@every_store
def test_the_end_of_the_process_closes_it_in_silence(url: str) -> None:
    assert script(EXITS, url) == (0, "[]", "")


def test_memory_is_empty_in_a_fork() -> None:
    assert script(FORKS, "memory://forked") == (0, "3", "")


def test_a_fork_of_an_open_app_is_closed(url: str) -> None:
    text = """
import asyncio, os, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1])

async def main():
    async with app:
        child = os.fork()
        if child == 0:
            assert app.loop is None
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(await app.queues())

asyncio.run(main())
"""
    assert script(text, url) == (0, "[]", "")
