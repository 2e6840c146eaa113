"""Handlers in native code that hold the interpreter lock for longer than the lease, in each executor."""

# ruff: noqa: F401, F811 (fixtures of other files)

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path
from types import ModuleType

import pytest
from process_case import every_store, ledger, store, tasks, worker_process
from support import PATIENCE, Gate, eventually, ledger_lines, transitions, working
from test_sandbox import server
from test_sandbox import tasks as boxed

from holdfast import Counters, JobFailed, State

LEASE = 0.6
EVERYWHERE = [("sqlite", "thread"), ("redis", "inline"), ("postgresql", "inline")]


async def leases_pass(count: float = 3) -> None:
    """So many leases are over, if nobody extends them."""
    until = time.monotonic() + count * LEASE
    await eventually(lambda: time.monotonic() > until)


@every_store
async def test_a_process_keeps_its_job(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    async with working(tasks.app, "process", pool=1, lease=LEASE) as running:
        handle = await tasks.holds_the_lock["process"].enqueue(str(gate))
        await eventually(lambda: ledger_lines(ledger, "start"))
        await leases_pass()
        gate.open()
        assert await handle.result() == 1
        assert (await running.end()).lost == 0


@every_store
async def test_past_its_time_the_others_in_its_process_need_not_wait_for_a_drain_in_which_nothing_moves(
    tasks: ModuleType, ledger: Path, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.executor.process.pool.SILENT", 1.0)
    with contextlib.closing(Gate(tmp_path / "lock")) as lock:
        async with working(tasks.app, "half", pool=1, drain=PATIENCE * 2):
            innocent = await tasks.holds.enqueue(str(gate))
            await eventually(lambda: ledger_lines(ledger, "start"))
            guilty = await tasks.holds_the_lock_in_company.enqueue(str(lock))
            with pytest.raises(JobFailed, match="time"):
                await guilty.result(timeout=PATIENCE)
            await eventually(lambda: [id for _, id, _ in ledger_lines(ledger, "start")].count(innocent.id) == 2)
            gate.open()
            await innocent.result()
            assert (await innocent.job()).counters == Counters(attempts=2)


async def test_a_sandbox_keeps_its_job(boxed: ModuleType, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "in" / "gate")
    async with working(boxed.app, pool=1, lease=LEASE) as running:
        handle = await boxed.holds_the_lock.enqueue(str(gate))
        await eventually(lambda: running.worker.active)
        await leases_pass()
        gate.open()
        assert await handle.result() == 1
        assert (await running.end()).lost == 0
    gate.close()


@pytest.mark.parametrize(("store", "executor"), EVERYWHERE)
async def test_elsewhere_the_guard_keeps_the_job_for_as_long_as_a_worker_may_be_stuck(
    tasks: ModuleType, ledger: Path, gate: Gate, executor: str
) -> None:
    lease = 8.0  # the guard has half of it to import the store and to open it, on a busy machine
    async with tasks.app:
        handle = await tasks.holds_the_lock[executor].enqueue(str(gate))
        with worker_process("--queues", executor, "--lease", str(lease)) as busy:
            await eventually(lambda: ledger_lines(ledger, "start"))
            async with working(tasks.app, executor, lease=lease):
                await leases_pass(1.5 * lease / LEASE)
                gate.open()
                assert await handle.result() == 1
            busy.send_signal(signal.SIGTERM)
            out, _ = await asyncio.to_thread(busy.communicate, timeout=PATIENCE)
    assert "1 completed" in out


@pytest.mark.parametrize(("store", "executor"), EVERYWHERE)
async def test_elsewhere_another_worker_takes_the_job_and_the_first_settles_nothing(
    tasks: ModuleType,
    ledger: Path,
    gate: Gate,
    executor: str,
) -> None:
    """Its heartbeats stop with its interpreter, and with no guard the lease ends: the job is run by somebody else."""
    async with tasks.app:
        handle = await tasks.holds_the_lock[executor].enqueue(str(gate))
        with worker_process("--queues", executor, "--lease", str(LEASE), "--no-guard") as busy:
            await eventually(lambda: ledger_lines(ledger, "start"))
            async with working(tasks.app, executor, lease=LEASE):
                assert await handle.result() == 2
            gate.open()
            await eventually(lambda: len(ledger_lines(ledger, "end")) == 2)  # it goes on, as nothing can stop it
            busy.send_signal(signal.SIGTERM)
            out, err = await asyncio.to_thread(busy.communicate, timeout=PATIENCE)
        record = await handle.job()
        events = await transitions(tasks.app, handle.id)
    assert "declared dead" in err
    assert "1 started, 1 lost" in out
    assert (record.state, record.counters.attempts, record.counters.stalls) == (State.COMPLETED, 2, 1)
    assert events == ["enqueue", "claim", "reap", "claim", "complete"]
