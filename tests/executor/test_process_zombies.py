"""Workers that freeze or die: no process of theirs goes on working, and nothing is settled twice."""

# ruff: noqa: F811 (fixtures of another file)

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from process_case import is_there, ledger, store, tasks, url_of, worker_process  # noqa: F401
from support import PATIENCE, Gate, declare_dead, eventually, ledger_lines, working

from holdfast import Holdfast, State
from holdfast.store.sqlite import SqliteStore

LEASE = 2.0


def freeze(process: subprocess.Popen[str], app: Holdfast) -> None:
    """The process stands still, and holds no write lock of a SQLite file, which nobody could take from it."""
    with contextlib.ExitStack() as stack:
        if isinstance(app.store, SqliteStore):
            ours = stack.enter_context(
                contextlib.closing(sqlite3.connect(str(app.store.address.path), timeout=PATIENCE))
            )
            ours.execute("BEGIN IMMEDIATE")
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgresql"])
async def test_a_frozen_worker_leaves_no_process_at_work_and_settles_nothing_when_it_thaws(
    tasks: ModuleType, ledger: Path, gate: Gate
) -> None:
    async with tasks.app:
        handle = await tasks.holds.enqueue(str(gate))
        with worker_process("--lease", str(LEASE)) as frozen:
            await eventually(lambda: ledger_lines(ledger, "start"))
            ((_, _, pid),) = ledger_lines(ledger, "start")
            freeze(frozen, tasks.app)
            await eventually(lambda: not is_there(pid))  # by its own deadline: nobody is awake to tell it
            async with working(tasks.app, pool=1, lease=LEASE):
                await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
                frozen.send_signal(signal.SIGCONT)
                gate.open()
                await handle.result()
                frozen.terminate()
                out, err = await asyncio.to_thread(frozen.communicate, timeout=PATIENCE)
        record = await handle.job()
    assert "declared dead" in err
    assert "1 lost" in out
    assert (record.state, record.counters.attempts, record.counters.stalls) == (State.COMPLETED, 2, 1)


async def test_processes_die_with_their_worker(tasks: ModuleType, ledger: Path, tmp_path: Path) -> None:
    async with tasks.app:
        await tasks.hangs.options(timeout=60).enqueue("ignores", "")
        with worker_process() as worker:
            await eventually(lambda: ledger_lines(ledger, "start"))
            ((_, _, pid),) = ledger_lines(ledger, "start")
            worker.kill()
            await eventually(lambda: not is_there(pid))


async def test_a_worker_that_was_declared_dead_ends_its_processes(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    async with working(tasks.app, pool=1, on_evicted="exit") as running:
        await tasks.holds.enqueue(str(gate))
        await eventually(lambda: ledger_lines(ledger, "start"))
        ((_, _, pid),) = ledger_lines(ledger, "start")
        await declare_dead(tasks.app)
        await eventually(lambda: running.task.done())
        assert (await running.task).lost == 1
        assert not is_there(pid)


async def test_a_handler_that_is_deaf_to_a_cancel_ends_with_the_lease(tasks: ModuleType, ledger: Path) -> None:
    async with working(tasks.app, pool=1) as running:
        handle = await tasks.hangs.options(timeout=60).enqueue("sleeps", "")
        await eventually(lambda: ledger_lines(ledger, "start"))
        ((_, _, pid),) = ledger_lines(ledger, "start")
        await handle.cancel(running="signal")
        (attempt,) = running.worker._run.parts.runner.running.values()
        await eventually(lambda: attempt.job.abort_reason == "cancelled")
        await declare_dead(tasks.app)
        await eventually(lambda: not is_there(pid))


async def test_a_thread_that_never_returns_ends_its_worker_if_so_wished(app: Holdfast) -> None:
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> None:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()

    never = app.task(timeout=0.1)(wait)
    async with app:
        handle = await never.enqueue()
        worker = app.worker(lease=0.6, grace=0.1, drain=0.1, on_stuck="exit")
        report = await asyncio.wait_for(worker.run(), PATIENCE)
        assert (report.stuck, report.retried, report.released) == (1, 1, 0)
        record = await handle.job()
        assert (record.state, record.counters.timeouts) == (State.SCHEDULED, 1)
        assert record.error is not None
        assert "its worker ended" in record.error.message
        released.set()
        await asyncio.sleep(0)
