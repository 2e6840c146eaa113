"""The worker's own trouble costs no job anything: it is handed back, and its queue is left alone for a while."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import places
import pytest
from support import eventually, working

from holdfast import Holdfast, JobFailed, Retry, State
from holdfast.core.policy import Counters
from holdfast.worker.turns import skipped_queues


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def tasks(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of handlers, on a fresh place of each store."""
    monkeypatch.setattr(skipped_queues, "LONGEST_FAILING", 0.5)
    with places.place(request.param, tmp_path) as url:
        monkeypatch.setenv("HOLDFAST_TEST_URL", url)
        monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(tmp_path / "ledger"))
        sys.modules.pop("process_tasks", None)
        yield importlib.import_module("process_tasks")


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
        with pytest.raises(OSError, match="Too many open files"):
            _open_all(stack)
        yield


def _open_all(stack: ExitStack) -> None:
    while True:
        stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))


async def test_a_worker_that_cannot_start_a_process_hands_jobs_back_and_goes_on_when_it_can(
    tasks: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    async with working(tasks.app, "default", "half", "endless", pool=1, lease=60) as running:
        running.worker.on("worker_error")(heard.append)
        assert await tasks.add.call(1, 2) == 3
        with no_descriptors():
            for process in running.worker._run.parts.pool.processes:
                os.kill(process.pid, 9)
            await eventually(lambda: "a process could not start" in caplog.text)
            jobs = [await tasks.add.enqueue(1, number) for number in range(12)]
            await eventually(lambda: len(heard) >= 3, "it has tried several times, and not in vain for the log")
            beside = await tasks.endless.enqueue(1)
            await beside.result()  # others are served as ever
            records = [await job.job() for job in jobs]
            spent = [(each.counters.failures, each.counters.stalls, each.counters.releases) for each in records]
            assert set(spent) == {(0, 0, 0)}
            assert {record.state for record in records} <= {State.WAITING, State.ACTIVE}
            assert heard[0].queue == "default"
            assert "Too many open files" in heard[0].detail
        assert [await job.result() for job in jobs] == [1 + number for number in range(12)]
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert any(
            "worker_error: queue default" in line and "hands their jobs back free of charge" in line for line in told
        )
        released = [event async for event in tasks.app.events() if event.transition == "release"]
        assert {event.cause for event in released} == {"worker"}


async def test_a_thread_that_cannot_start_costs_nothing_and_others_go_on(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipped_queues, "LONGEST_FAILING", 0.5)
    heard: list[Any] = []

    @app.task(queue="threads", executor="thread")
    def threaded() -> int:
        return threading.get_ident()

    @app.task(queue="inline")
    async def inline() -> str:
        return "beside"

    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("holdfast-handler"):
            raise RuntimeError("can't start new thread")
        begin(thread)

    async with working(app) as running:
        running.worker.on("worker_error")(heard.append)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            job = await threaded.enqueue()
            await eventually(lambda: len(heard) >= 2)
            assert await inline.call() == "beside"
            assert (await job.job()).counters.failures == 0
        assert await job.result() != threading.get_ident()
        assert (await job.job()).counters == Counters(attempts=(await job.job()).counters.attempts)


HALF_IMPORTED = """
import errno, os, sys
from pathlib import Path

if hasattr(sys, "half_imported"):
    raise ImportError("cannot import name 'it' from partially initialized module 'half_imported_tasks'")
tried = Path(__file__).with_suffix(".tried")
if os.getpid() != int(os.environ["HOLDFAST_TEST_WORKER"]) and not tried.exists():
    tried.touch()
    sys.half_imported = True
    raise OSError(errno.EMFILE, "Too many open files")

def handle(number):
    return number + 1
"""


async def test_a_process_that_could_not_import_all_of_a_module_takes_no_other_job(
    app: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipped_queues, "LONGEST_FAILING", 0.5)
    (tmp_path / "half_imported_tasks.py").write_text(HALF_IMPORTED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HOLDFAST_TEST_WORKER", str(os.getpid()))
    plain: Any = app.queue("plain", handler="half_imported_tasks:handle", executor="process", retry=Retry(failures=1))
    async with working(app, "plain", pool=1):
        assert await plain.call(1) == 2


async def test_what_a_handler_itself_lacks_is_its_own_failure(app: Holdfast) -> None:
    @app.task(retry=Retry(failures=1))
    async def greedy() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async with working(app):
        with pytest.raises(JobFailed):
            await greedy.call()
