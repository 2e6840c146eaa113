"""Several processes on one file: each job once, nothing lost to SIGKILL, wake-ups without polling."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from support import WorkerProcess, eventually, ledger_lines, processes
from worker_process import make_app

from holdfast import Counters, State

LEASE = {"lease": 1.0, "poll": 0.2}


async def finished(app: Any, count: int) -> bool:
    info = await app.queue("default").info()
    return info is not None and info.counts["completed"] == count


async def test_processes_share_the_jobs_and_each_runs_once(url: str, tmp_path: Path) -> None:
    """They open a fresh file at the same moment, and none of them finds it locked."""
    ledger = tmp_path / "ledger"
    app = make_app(url, ledger)
    touch = app.registry.tasks["touch"]
    workers = [WorkerProcess(url, ledger, slots=3) for _ in range(4)]
    with processes(*workers):
        async with app:
            await eventually(lambda: _workers(app, 4))
            await touch.enqueue_many(touch.args() for _ in range(600))
            await eventually(lambda: finished(app, 600))
        for worker in workers:
            worker.signal(signal.SIGTERM)
        reports = [await worker.end() for worker in workers]
    starts = Counter(id for what, id, _ in ledger_lines(ledger) if what == "start")
    assert len(starts) == 600
    assert set(starts.values()) == {1}
    assert sum(report["completed"] for report in reports) == 600
    assert not [report["log"] for report in reports if "locked" in report["log"]]


async def _workers(app: Any, count: int) -> bool:
    return len(await app.workers()) == count


async def test_a_file_that_processes_open_at_once_is_created_once(url: str) -> None:
    """Ten processes find no file: one makes it, and the others wait for it."""
    script = (
        "import asyncio, sys\n"
        "from holdfast import Holdfast\n"
        "async def main():\n"
        "    sys.stdin.readline()\n"
        "    async with Holdfast(sys.argv[1]) as app:\n"
        "        print((await app.queue('q').enqueue(1)).run)\n"
        "asyncio.run(main())\n"
    )
    many = [
        subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", script, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(10)
    ]  # fmt: skip
    for process in many:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [await asyncio.to_thread(process.communicate) for process in many]
    assert [err for _, err in told] == [""] * 10
    assert sorted(int(out) for out, _ in told) == list(range(1, 11))


async def test_the_jobs_of_a_killed_worker_are_finished_by_another(url: str, tmp_path: Path) -> None:
    ledger, release = tmp_path / "ledger", tmp_path / "release"
    app = make_app(url, ledger)
    hang, block = app.registry.tasks["hang"], app.registry.tasks["block"]
    victim = WorkerProcess(url, ledger, slots=4, **LEASE)
    with processes(victim):
        async with app:
            handles = [await task.enqueue(str(release)) for task in (hang, hang, block, block)]
            await eventually(lambda: len(ledger_lines(ledger)) == 4)
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            release.touch()
            heir = WorkerProcess(url, ledger, slots=4, **LEASE)
            with processes(heir):
                assert [await handle.result() for handle in handles] == ["done"] * 4
                jobs = [await handle.job() for handle in handles]
                heir.signal(signal.SIGTERM)
                report = await heir.end()
    assert [job.counters for job in jobs] == [Counters(attempts=2, stalls=1)] * 4
    assert report["completed"] == 4
    lines = ledger_lines(ledger)
    assert Counter(what for what, _, _ in lines) == {"start": 8, "end": 4}
    assert {pid for what, _, pid in lines if what == "end"} == {heir.pid}


async def test_a_job_that_kills_its_worker_every_time_stops_at_its_stall_limit_and_reaches_its_fail_handler(
    url: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    app = make_app(url, ledger)
    async with app:
        handle = await app.registry.tasks["kill_my_worker"].enqueue()
        for attempt in (1, 2):
            worker = WorkerProcess(url, ledger, **LEASE)
            with processes(worker):
                await eventually(lambda attempt=attempt: len(ledger_lines(ledger)) == attempt)
                assert await asyncio.to_thread(worker.process.wait) == -signal.SIGKILL
        reaper = WorkerProcess(url, ledger, **LEASE)
        with processes(reaper):
            job = await eventually(lambda: _when_failed(handle))
            ((_, id, pid),) = await eventually(lambda: ledger_lines(ledger, "alarm"))
    assert (id, pid) == (handle.id, reaper.pid)
    assert job.counters == Counters(attempts=2, stalls=2)
    assert job.error.type == "Stalled"


async def _when_failed(handle: Any) -> Any:
    job = await handle.job()
    return job if job.state is State.FAILED else None


async def test_an_enqueue_wakes_a_worker_in_another_process_that_does_not_poll(url: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    app = make_app(url, ledger)
    touch = app.registry.tasks["touch"]
    worker = WorkerProcess(url, ledger, poll=600, lease=600)
    with processes(worker):
        async with app:
            await eventually(lambda: _parked(app))
            for n in range(5):
                assert await touch.call_within(10) == worker.pid, f"call {n} was not heard of in time"
                await eventually(lambda: _parked(app))
            later = await touch.options(delay=0.3).enqueue()
            assert await later.result(10) == worker.pid, "it slept until the very time, though it does not poll"


async def _parked(app: Any) -> bool:
    return bool(
        await app.store.database.read(lambda tx: tx.run("session", "parked", queue="default", limit=1).fetchall())
    )


async def test_sigterm_drains_and_a_second_one_hands_back(url: str, tmp_path: Path) -> None:
    ledger, release = tmp_path / "ledger", tmp_path / "release"
    app = make_app(url, ledger)
    hang, block = app.registry.tasks["hang"], app.registry.tasks["block"]
    worker = WorkerProcess(url, ledger, slots=2, drain=600, grace=0.1)
    with processes(worker):
        async with app:
            running = [await hang.enqueue(str(release)), await block.enqueue(str(release))]
            waiting = await hang.enqueue(str(release))
            await eventually(lambda: len(ledger_lines(ledger)) == 2)
            worker.signal(signal.SIGTERM)
            await eventually(lambda: ledger_lines(ledger, "stop"))
            worker.signal(signal.SIGTERM)
            report = await worker.end()
            jobs = [await handle.job() for handle in (*running, waiting)]
    assert [job.state for job in jobs] == [State.WAITING] * 3
    assert [job.counters.releases for job in jobs] == [1, 1, 0]
    assert (report["released"], report["completed"]) == (2, 0)


async def test_sigterm_lets_handlers_finish(url: str, tmp_path: Path) -> None:
    ledger, release = tmp_path / "ledger", tmp_path / "release"
    app = make_app(url, ledger)
    worker = WorkerProcess(url, ledger, slots=1, drain=600)
    with processes(worker):
        async with app:
            hang = app.registry.tasks["hang"]
            first = await hang.enqueue(str(release))
            await eventually(lambda: ledger_lines(ledger))
            second = await hang.enqueue(str(release))
            worker.signal(signal.SIGTERM)
            await eventually(lambda: ledger_lines(ledger, "stop"))
            release.touch()
            report = await worker.end()
            assert await first.result() == "done"
            assert (await second.job()).state is State.WAITING
    assert (report["completed"], report["released"]) == (1, 0)


async def test_processes_that_write_heavily_never_find_the_file_locked(url: str, tmp_path: Path) -> None:
    """Two producers and two workers at once, all with the same file."""
    ledger = tmp_path / "ledger"
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from worker_process import make_app\n"
        "async def main():\n"
        "    app = make_app(sys.argv[1], Path(sys.argv[2]))\n"
        "    touch = app.registry.tasks['touch']\n"
        "    async with app:\n"
        "        for _ in range(150):\n"
        "            await asyncio.gather(*(touch.enqueue() for _ in range(4)))\n"
        "asyncio.run(main())\n"
    )
    app = make_app(url, ledger)
    here = str(Path(__file__).parent.parent)
    workers = [WorkerProcess(url, ledger, slots=5, poll=0.05) for _ in range(2)]
    with processes(*workers):
        producers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", script, url, str(ledger), cwd=here, stderr=asyncio.subprocess.PIPE
            )
            for _ in range(2)
        ]
        told = [(await producer.communicate())[1].decode() for producer in producers]
        async with app:
            await eventually(lambda: finished(app, 1200))
        for worker in workers:
            worker.signal(signal.SIGTERM)
        reports = [await worker.end() for worker in workers]
    assert told == ["", ""]
    assert not [report["log"] for report in reports if "locked" in report["log"]]
    assert sum(report["completed"] for report in reports) == 1200
    assert len(ledger_lines(ledger)) == 1200


async def test_a_burst_in_a_process_prints_its_report(url: str, tmp_path: Path) -> None:
    worker = WorkerProcess(url, tmp_path / "ledger", burst=True)
    with processes(worker):
        assert json.dumps(await worker.end()).startswith('{"started": 0')
