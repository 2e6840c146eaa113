"""Signals: all workers of a process hear them, and whoever heard them before hears them again afterwards."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, cast

import pytest
from support import PATIENCE, Running, eventually, until

from holdfast import ConfigError, Holdfast, Job, Worker
from holdfast.cli.worker.fleet import _stopping
from holdfast.worker import Report
from holdfast.worker.signals import heard

if TYPE_CHECKING:
    from holdfast.spark.fleet.fleet import Fleet


@pytest.fixture
def before() -> Iterator[list[int]]:
    """What a handler of the program's own has heard, which was there before any worker."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    old = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield heard
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def workers_of(app: Holdfast, count: int, **options: float) -> list[Worker]:
    return [app.worker(name=f"w{number}", **options) for number in range(count)]


async def all_healthy(*workers: Worker) -> None:
    for worker in workers:
        await eventually(lambda worker=worker: worker.healthy, f"{worker.name} works")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_all_workers_of_the_process(app: Holdfast, before: list[int], number: int) -> None:
    @app.task()
    async def ping() -> None: ...

    async with app:
        workers = workers_of(app, 3)
        running = [Running(worker, signals=True) for worker in workers]
        await all_healthy(*workers)
        signal.raise_signal(number)
        reports = await asyncio.wait_for(asyncio.gather(*(each.task for each in running)), PATIENCE)
    assert reports == [Report()] * 3
    assert before == [], "the workers took it"


async def test_a_second_signal_skips_the_drain_of_all(app: Holdfast, before: list[int]) -> None:
    @app.task()
    async def long(job: Job) -> None:
        await job.signal.wait()
        job.signal.check()

    async with app:
        workers = workers_of(app, 2, slots=1, drain=600, grace=20)
        running = [Running(worker, signals=True) for worker in workers]
        await long.enqueue()
        await long.enqueue()
        await eventually(lambda: all(worker.active for worker in workers))
        signal.raise_signal(signal.SIGTERM)
        await eventually(
            lambda: all(worker._run is not None and worker._run.stopping is not None for worker in workers)
        )
        assert [worker.active for worker in workers] == [1, 1], "they drain"
        signal.raise_signal(signal.SIGTERM)
        reports = await asyncio.wait_for(asyncio.gather(*(each.task for each in running)), PATIENCE)
    assert reports == [Report(started=1, released=1)] * 2


async def test_whoever_ends_first_takes_the_signals_from_nobody(app: Holdfast, before: list[int]) -> None:
    """And when the last has ended, the handlers from before are back."""

    @app.task()
    async def ping() -> None: ...

    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with app:
        first, second, third = workers_of(app, 3)
        running = [Running(worker, signals=True) for worker in (first, second, third)]
        await all_healthy(first, second, third)
        first.stop()
        third.stop()
        await running[0].task
        await running[2].task
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running[1].task, PATIENCE)
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
        signal.raise_signal(signal.SIGTERM)
    assert before == [signal.SIGTERM]


async def test_a_worker_that_does_not_hear_signals_goes_on(app: Holdfast, before: list[int]) -> None:
    @app.task()
    async def ping() -> str:
        return "pong"

    async with app:
        deaf, hearing = workers_of(app, 2)
        going_on = Running(deaf)
        stopping = Running(hearing, signals=True)
        await all_healthy(deaf, hearing)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(stopping.task, PATIENCE)
        assert await ping.call() == "pong"
        await going_on.end()


async def test_a_handler_of_the_event_loop_is_called_as_well(app: Holdfast, before: list[int]) -> None:
    @app.task()
    async def ping() -> None: ...

    heard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, heard.append, "loop")
    try:
        async with app:
            running = Running(app.worker(), signals=True)
            await all_healthy(running.worker)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(running.task, PATIENCE)
        await eventually(lambda: heard == ["loop"])
        signal.raise_signal(signal.SIGTERM)
        await eventually(lambda: heard == ["loop", "loop"])
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_a_handler_that_came_later_stays(app: Holdfast, before: list[int]) -> None:
    @app.task()
    async def ping() -> None: ...

    def later(number: int, frame: FrameType | None) -> None: ...

    async with app:
        running = Running(app.worker(), signals=True)
        await all_healthy(running.worker)
        signal.signal(signal.SIGTERM, later)
        await running.end()
    assert signal.getsignal(signal.SIGTERM) is later


def test_a_fleet_on_spark_is_asked_and_then_hurried(before: list[int]) -> None:
    told: queue.Queue[str] = queue.Queue()

    class Made:
        def ask_to_stop(self) -> None:
            told.put("stop")

        def hurry(self) -> None:
            told.put("hurry")

    with heard(_stopping(cast("Fleet", Made()))):
        for expected in ("stop", "hurry", "hurry"):
            signal.raise_signal(signal.SIGTERM)
            assert told.get(timeout=PATIENCE) == expected
    assert before == []


# --- loops in other threads


class InThread:
    """A worker of its own app, in the loop of another thread."""

    def __init__(self, url: str) -> None:
        self.app = Holdfast(url)

        @self.app.task()
        async def ping() -> None: ...

        self.worker = self.app.worker(name="in-thread")
        self.outcome: list[object] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome.append(asyncio.run(self.worker.run(signals=True)))
        except ConfigError as error:
            self.outcome.append(error)

    def end(self) -> object:
        """Return what became of it."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.outcome[0]


async def test_workers_in_other_threads_hear_what_the_main_thread_hears(url: str, before: list[int]) -> None:
    app = Holdfast(url)

    @app.task()
    async def ping() -> None: ...

    async with app:
        running = Running(app.worker(), signals=True)
        await all_healthy(running.worker)
        other = InThread(url)
        await all_healthy(other.worker)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running.task, PATIENCE)
        assert await asyncio.to_thread(other.end) == Report()


async def test_the_last_worker_in_another_thread_leaves_signals_to_the_old_handler(url: str, before: list[int]) -> None:
    app = Holdfast(url)

    @app.task()
    async def ping() -> None: ...

    async with app:
        running = Running(app.worker(), signals=True)
        await all_healthy(running.worker)
        other = InThread(url)
        await all_healthy(other.worker)
        await running.end()
        signal.raise_signal(signal.SIGTERM)
        assert await asyncio.to_thread(other.end) == Report()
        assert before == []
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert before == [signal.SIGTERM] * 2


def test_a_worker_alone_in_another_thread_is_told_that_it_cannot_hear(url: str) -> None:
    error = InThread(url).end()
    assert isinstance(error, ConfigError)
    assert "signals=True: Python hears signals in its main thread only" in str(error)
    assert "worker.stop()" in str(error)


def test_a_stop_from_a_handler_of_the_programs_own_reaches_any_thread(url: str) -> None:
    app = Holdfast(url)

    @app.task()
    async def ping() -> None: ...

    worker = app.worker()
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(asyncio.run(worker.run())))
    old = signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    try:
        thread.start()
        until(lambda: worker.healthy)
        signal.raise_signal(signal.SIGTERM)
        thread.join(PATIENCE)
    finally:
        signal.signal(signal.SIGTERM, old)
    assert reports == [Report()]
