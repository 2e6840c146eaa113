"""What a handler depends on: open while it runs, wherever it does, and closed however it ends."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from process_case import ledger, url_of  # noqa: F401
from support import eventually, working

from holdfast import Depends, Holdfast, Job, JobFailed
from holdfast.testing import drain


@pytest.fixture
def tasks(tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: F811
    monkeypatch.setenv("HOLDFAST_TEST_URL", url_of("sqlite", tmp_path))
    monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(ledger))
    sys.modules.pop("injection_tasks", None)
    return importlib.import_module("injection_tasks")


def words(ledger: Path, whose: str = "") -> list[str]:  # noqa: F811
    """Return what resources wrote to the ledger, those of one job if it is named."""
    lines = [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []
    return [what for what, id, _ in lines if not whose or id == whose]


HERE = ["inline", "inline_def", "thread", "thread_coroutine"]
APART = ["process_handler", "process_coroutine"]


@pytest.mark.parametrize("name", [*HERE, *APART])
async def test_a_handler_has_what_it_depends_on(tasks: ModuleType, ledger: Path, name: str) -> None:  # noqa: F811
    async with working(tasks.app, "default", pool=1):
        handle = await getattr(tasks, name).enqueue("well")
        found = await handle.result()
    (pid,) = found.pop("pids")
    assert (pid == os.getpid()) is (name in HERE)
    assert found.pop("client", [handle.id]) == [handle.id]
    assert found == {
        "same": True, "word": f"{handle.id}:1", "where": f"region of {pid}", "thread": True, "job": handle.id,
    }  # fmt: skip
    has_client = "coroutine" in name or name == "inline"
    between = ["open-client", "close-client"] if has_client else []
    assert words(ledger, handle.id) == ["open-session", *between, "close-session"]


@pytest.mark.parametrize("name", [*HERE, *APART, "thread_client", "process_with_client"])
async def test_it_is_closed_after_a_failure_which_stays_one(tasks: ModuleType, ledger: Path, name: str) -> None:  # noqa: F811
    async with working(tasks.app, "default", pool=1):
        with pytest.raises(JobFailed, match="ValueError: no good"):
            await getattr(tasks, name).call("raise")
        lines = words(ledger)
    assert lines.count("undo-ValueError") == 1
    assert lines.count("close-session") == lines.count("open-session") == 1


async def test_it_is_closed_after_a_time_out(tasks: ModuleType, ledger: Path) -> None:  # noqa: F811
    async with working(tasks.app, "default", pool=1):
        with pytest.raises(JobFailed, match="TimedOut"):
            await tasks.in_loop.call("wait")
        lines = words(ledger)
    assert lines.count("undo-CancelledError") == 1
    assert lines.count("close-session") == lines.count("open-session") == 1


async def test_it_is_closed_when_its_job_is_deleted(tasks: ModuleType, ledger: Path) -> None:  # noqa: F811
    async with working(tasks.app, "default", pool=1, lease=0.6):
        handle = await tasks.inline.enqueue("wait")
        await eventually(lambda: "waits" in words(ledger))
        await tasks.app.delete_chain("default", handle.id)
        await eventually(lambda: "close-session" in words(ledger))
    assert "undo-CancelledError" in words(ledger)


async def test_a_def_handler_has_async_resources_too(tasks: ModuleType, ledger: Path) -> None:  # noqa: F811
    async with working(tasks.app, "default", pool=1):
        for task in (tasks.thread_client, tasks.process_with_client):
            handle = await task.enqueue("well")
            assert await handle.result() == [handle.id]
            own = words(ledger, handle.id)
            assert own == ["open-session", "open-client", "close-client", "close-session"]


async def test_a_clean_up_that_fails_fails_the_attempt(tasks: ModuleType) -> None:
    async with working(tasks.app, "default", pool=1):
        handle = await tasks.committed.enqueue("ann")
        with pytest.raises(JobFailed, match=f"OSError: {handle.id}: the commit failed"):
            await handle.result()


async def test_a_sandbox_opens_resources_of_attempts_inside(tasks: ModuleType) -> None:
    async with working(tasks.app, "boxed", pool=1):
        first, second = await tasks.boxed.call()
    assert first == second


@pytest.mark.parametrize("threads", [False, True])
async def test_tests_override_a_resource(tasks: ModuleType, ledger: Path, threads: bool) -> None:  # noqa: F811
    fake = tasks.Pool()
    fake.pid = 7
    with tasks.app.override(tasks.pool, fake), tasks.app.override(tasks.token, "fake"):
        async with tasks.app, tasks.app.resources():
            for task in (tasks.thread, tasks.process_coroutine):
                handle = await task.enqueue("well")
                (ran,) = await drain(tasks.app, raise_errors=True, threads=threads)
                assert (ran.id, ran.result["word"], ran.result["where"]) == (handle.id, "fake", "region of 7")
                assert ran.result["pids"] == [7, os.getpid()]
    assert "open-pool" not in words(ledger)


async def test_an_override_does_not_reach_processes_and_says_so(tasks: ModuleType) -> None:
    with tasks.app.override(tasks.pool, tasks.Pool()):
        async with working(tasks.app, "default", pool=1):
            with pytest.raises(
                JobFailed, match="'pool' is overridden in this process, and its handler runs in another"
            ):
                await tasks.process_handler.call("well")


async def test_the_function_itself_is_called_with_what_is_overridden_or_passed(tasks: ModuleType) -> None:
    with tasks.app.override(tasks.client, ["fake"]), tasks.app.override(tasks.pool, tasks.Pool()):
        assert tasks.thread_client("well") == ["fake"]
        assert tasks.thread_client("well", ["mine"]) == ["mine"]
        assert tasks.thread_client("well", http=["mine"]) == ["mine"]


async def test_the_function_itself_has_a_job_only_inside_of_one() -> None:
    app = Holdfast("memory://called-here")

    @app.task
    def inner(n: int, *, job: Job = Depends(Job)) -> list[Any]:
        return [n, job.task]

    @app.task
    async def outer(job: Job) -> list[Any]:
        found: list[Any] = inner(3)
        return found

    with pytest.raises(
        TypeError, match=r"inner\(\) is called here without 'job', the job, which only a worker has: pass"
    ):
        inner(3)
    async with working(app):
        assert await outer.call() == [3, "outer"]


async def test_resources_of_attempts_are_opened_for_plain_payloads(ledger: Path, monkeypatch: Any) -> None:  # noqa: F811
    app = Holdfast("memory://plain-injection")
    closed: list[str] = []

    @app.resource(scope="attempt")
    async def own(job: Job) -> Any:
        yield job.id
        closed.append(job.id)

    async def charge(order: dict[str, int], id: str = Depends(own)) -> list[Any]:
        return [order, id]

    orders = app.queue("orders", handler=charge)
    async with working(app, "orders"):
        handle = await orders.enqueue({"n": 1})
        assert await handle.result() == [{"n": 1}, handle.id]
        assert closed == [handle.id]


async def test_attempts_side_by_side_have_their_own(tasks: ModuleType) -> None:
    async with working(tasks.app, "default", pool=1):
        handles = [await task.enqueue("well") for task in (tasks.inline, tasks.thread, tasks.inline_def) * 5]
        found = await asyncio.gather(*(handle.result() for handle in handles))
    assert [each["word"] for each in found] == [f"{handle.id}:1" for handle in handles]
