"""`WorkerProcesses`: worker processes started and stopped by a program, as `holdfast worker --processes` does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_shop import Shop, in_shop
from support import PATIENCE, Running, eventually

from holdfast import ConfigError, Holdfast, HoldfastError, ProcessesReport, WorkerProcesses
from holdfast.supervisor.command import worker_command
from holdfast.worker import Report


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def made(count: int, queues: list[str] | None = None, **options: Any) -> WorkerProcesses:
    return WorkerProcesses("shop.py:app", count, queues, **{"guard": False, **options})


async def send(app: Holdfast, count: int) -> list[str]:
    """Return the results of so many jobs that processes have run."""
    task = app.registry.tasks["send"]
    return list(await asyncio.gather(*(task.call(f"ann{number}") for number in range(count))))


async def test_processes_work_when_start_returns_and_have_ended_when_stop_does(shop: Shop) -> None:
    processes = made(2, slots=3, drain=timedelta(seconds=20), name="p")
    async with processes.app as app:
        assert (processes.running, processes.pids) == (False, [])
        await processes.start()
        await processes.start()
        sessions = [info.session for info in await app.workers()]
        assert sorted(each.name for each in sessions) == ["p-1", "p-2"]
        assert sorted(each.pid for each in sessions) == sorted(processes.pids)
        assert {each.slots for each in sessions} == {3}
        assert len(await send(app, 20)) == 20
        reports = await asyncio.gather(processes.stop(), processes.stop(), processes.stopped())
        assert reports == [ProcessesReport(did=Report(started=20, completed=20))] * 3
        assert (processes.running, processes.pids) == (False, [])
        assert await app.workers() == []


async def test_one_that_is_told_to_end_stays_ended_and_all_end_when_all_are_told(shop: Shop) -> None:
    processes = made(2, name="p", heartbeat=0.1, lease=5)
    async with processes.app as app:
        await processes.start()
        assert len(await app.stop_worker("p-1")) == 1
        await eventually(lambda: len(processes.pids) == 1)
        assert [info.session.name for info in await app.workers()] == ["p-2"]
        assert len(await app.stop_worker("p")) == 1
        report = await asyncio.wait_for(processes.stopped(), PATIENCE)
        assert (report.code, report.restarts, processes.running) == (0, 0, False)


async def test_one_that_is_killed_is_replaced_and_they_may_start_again(shop: Shop) -> None:
    said: list[str] = []
    processes = made(1, say=said.append)
    async with processes.app as app:
        assert await processes.stop() == ProcessesReport(), "those that never ran have done nothing"
        async with processes:
            (first,) = processes.pids
            os.kill(first, signal.SIGKILL)
            await eventually(lambda: processes.pids not in ([], [first]))
            assert await send(app, 1) == ["1 to ann0"]
        report = await processes.stopped()
        assert report == ProcessesReport(did=Report(started=1, completed=1), restarts=1, unheard=1)
        assert said == ["worker process 1 was killed by SIGKILL: starting another in 0.1 s"]
        async with processes:
            assert await send(app, 1) == ["1 to ann0"]
        assert await processes.stopped() == ProcessesReport(did=Report(started=1, completed=1))


async def test_a_burst_ends_by_itself_and_tells_what_it_did(shop: Shop) -> None:
    processes = made(2, ["mail"], burst=True)
    async with processes.app as app:
        await app.registry.tasks["send"].enqueue_many(app.registry.tasks["send"].args(str(n)) for n in range(7))
        report = await processes.run()
    assert report == ProcessesReport(did=Report(started=7, completed=7))


async def test_a_signal_stops_processes_and_the_workers_of_this_one_and_a_second_skips_the_drain(shop: Shop) -> None:
    processes = made(1, ["slow"], drain=600, grace=20)
    app = processes.app
    async with app:
        running = Running(app.worker(["mail"]), signals=True)
        keeping = asyncio.create_task(processes.run(signals=True))
        handle = await app.registry.tasks["until_told"].enqueue()
        await eventually(lambda: is_active(handle))
        await eventually(lambda: running.worker.healthy)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running.task, PATIENCE)
        assert not keeping.done(), "it drains"
        signal.raise_signal(signal.SIGTERM)
        report = await asyncio.wait_for(keeping, PATIENCE)
    assert report == ProcessesReport(did=Report(started=1, released=1))


async def is_active(handle: Any) -> bool:
    return (await handle.job()).state == "active"


async def test_a_third_signal_kills(shop: Shop) -> None:
    processes = made(1, ["slow"], drain=600, grace=600)
    async with processes.app as app:
        keeping = asyncio.create_task(processes.run(signals=True))
        handle = await app.registry.tasks["deaf"].enqueue()
        await eventually(lambda: is_active(handle))
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        report = await asyncio.wait_for(keeping, PATIENCE)
    assert report == ProcessesReport(unheard=1, code=1)


async def test_a_stop_without_a_drain_reaches_a_process_that_has_not_heard_of_the_first(shop: Shop) -> None:
    """The system may make one of two signals that are alike."""
    processes = made(1, ["slow"], drain=600, grace=20)
    async with processes.app as app:
        await processes.start()
        handle = await app.registry.tasks["until_told"].enqueue()
        await eventually(lambda: is_active(handle))
        (pid,) = processes.pids
        os.kill(pid, signal.SIGSTOP)
        ending = processes.stop(drain=False)
        await eventually(lambda: len(processes._keeper._signals) == 2)
        os.kill(pid, signal.SIGCONT)
        report = await asyncio.wait_for(ending, PATIENCE)
    assert report == ProcessesReport(did=Report(started=1, released=1))


async def test_one_that_cannot_be_started_is_told_by_start_and_leaves_none_running(shop: Shop) -> None:
    processes = made(2, say=lambda text: None, words=["--nonsense"])
    with pytest.raises(HoldfastError, match="a worker process could not be started; what it said of it is on stderr"):
        await processes.start()
    assert (processes.running, processes.pids) == (False, [])
    assert (await processes.stopped()).code == 2


async def test_a_start_that_is_cancelled_leaves_none_running(shop: Shop) -> None:
    processes = made(1)
    starting = asyncio.create_task(processes.start())
    await eventually(lambda: processes.pids)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert (processes.running, processes.pids) == (False, [])


async def test_processes_that_run_are_not_run_twice(shop: Shop) -> None:
    processes = made(1)
    async with processes:
        with pytest.raises(ConfigError, match="these worker processes run already"):
            await processes.run()


@pytest.mark.parametrize(
    ("app", "options", "message"),
    [
        ("shop.py:app", {"count": 0}, "count=0: a whole number from 1"),
        ("shop.py:app", {"slots": 0}, "slots=0: a whole number from 1"),
        ("shop.py:app", {"nonsense": 1}, "nonsense"),
        ("shop.py:app", {"logger": "mine"}, "logger='mine': worker processes have their own; give it to the app"),
        ("memory.py:app", {}, "memory:// is one process's own memory, which others cannot share"),
        ("none.py:app", {}, "there is no file"),
    ],
)
def test_a_mistake_is_told_at_once(shop: Shop, app: str, options: dict[str, Any], message: str) -> None:
    (shop.folder / "memory.py").write_text(
        "from holdfast import Holdfast\napp = Holdfast('memory://')\napp.queue('q', priority=1)\n"
    )
    with pytest.raises((ConfigError, TypeError), match=message):
        WorkerProcesses(app, **{"count": 2, **options})


def test_an_option_that_no_command_can_be_given_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"hooks=\[\]: worker processes take what `holdfast worker --hooks` takes"):
        worker_command("shop:app", None, {"hooks": []})
