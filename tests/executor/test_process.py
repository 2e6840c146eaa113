"""Handlers in processes: what they can do there, how they are stopped, and what a dead process costs."""

# ruff: noqa: F811 (fixtures of another file)

from __future__ import annotations

import asyncio
import io
import itertools
import logging
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from process_case import every_store, is_there, ledger, store, tasks  # noqa: F401
from support import Gate, burst, eventually, ledger_lines, working

from holdfast import ConfigError, Counters, HandlerRaised, Holdfast, Job, JobFailed, PayloadError, Retry, Sandbox, State
from holdfast.executor.process.units import UnitNeed


async def failure(call: Any) -> Any:
    """Return the stored error of a job that fails."""
    with pytest.raises(JobFailed) as caught:
        await call
    return caught.value.error


@every_store
async def test_handlers_run_in_processes_with_all_that_a_job_has(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1) as running:
        assert await tasks.add.call(1, 2) == 3
        handle = await tasks.where.options(headers={"trace": "t"}, key="k", job_id="w").enqueue()
        seen = await handle.result()
        (pid,) = {process.pid for process in running.worker._run.parts.pool.processes}
        assert seen == {
            "pid": pid, "id": "w", "attempt": 1, "headers": {"trace": "t"}, "key": "k",
            "resource": f"connection of {pid}", "model": 42, "context": {},
        }  # fmt: skip
        assert pid != os.getpid()
        record = await handle.job()
        assert (record.progress.fraction, record.progress.message) == (0.5, "half")
        assert record.checkpoint == b'{"seen":1}'
        handle = await tasks.where_in_thread.enqueue()
        assert (await handle.result())["resource"] == f"connection of {pid}"
        record = await handle.job()
        assert record.progress.fraction == 0.25
        assert record.expires_at_ms - record.finished_at_ms == 7_200_000
        assert await tasks.enqueues.call(7) == "child-7"
        assert await tasks.add.result("child-7") == 8


async def test_a_handler_ends_in_a_process_as_anywhere(tasks: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    async with working(tasks.app, pool=1):
        for how in ("raise", "snooze"):
            assert await tasks.ends.call(how) == 2
        assert await tasks.ends.call("log") == 1
        error = await failure(tasks.ends.call("raise for ever"))
        assert (error.type, error.message, error.kind) == ("ValueError", "no good", "failure")
        assert "process_tasks.py" in error.traceback
        assert "child.py" not in error.traceback
        error = await failure(tasks.ends.call("permanent"))
        assert (error.type, error.message, error.kind) == ("Permanent", "never", "permanent")
        error = await failure(tasks.ends.call("unencodable"))
        assert (error.type, error.kind) == ("ResultInvalid", "permanent")
        assert await tasks.completes.call() is None
    (line,) = [record for record in caplog.records if record.name == "shop"]
    assert line.levelname == "WARNING"
    assert line.getMessage() == "the shop is closed"
    assert (line.queue, line.task, line.attempt) == ("default", "ends", 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", [None, "/somewhere"])
async def test_programs_of_a_handler_look_for_modules_where_those_of_the_worker_do(
    tasks: ModuleType, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    async with working(tasks.app, pool=1):
        assert await tasks.sees.call("PYTHONPATH") == path


async def test_chains_and_blockers_work_in_processes(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        chains = [await tasks.doubles.enqueue(number) for number in (2, 5)]
        assert await tasks.gathers.options(blockers=chains).call() == [4, 10]


async def test_a_plain_queue_runs_its_handler_in_a_process(tasks: ModuleType) -> None:
    queue = tasks.app.queue("plain", handler="process_tasks:plain", executor="process")
    async with working(tasks.app, pool=1):
        handle = await queue.enqueue({"a": 1})
        assert await handle.result() == 2


async def test_middleware_runs_round_the_dispatch_and_gives_context(tasks: ModuleType) -> None:
    seen: list[Any] = []

    @tasks.app.middleware
    async def around(job: Job, next: Any) -> Any:
        job.context["tenant"] = "acme"
        try:
            result = await next()
        except HandlerRaised as error:
            seen.append((str(error), error.error.type))
            raise
        seen.append(type(result))
        return result

    async with working(tasks.app, pool=1):
        assert (await tasks.where.call())["context"] == {"tenant": "acme"}
        assert (await failure(tasks.ends.call("raise for ever"))).type == "ValueError"
    assert seen == [dict, *[("ValueError: no good", "ValueError")] * 3]


async def test_context_that_cannot_cross_is_refused(tasks: ModuleType) -> None:
    @tasks.app.middleware
    async def around(job: Job, next: Any) -> Any:
        job.context["lock"] = asyncio.Lock()
        return await next()

    async with working(tasks.app, pool=1):
        error = await failure(tasks.where.call())
    assert error.type == PayloadError.__name__
    assert "context['lock'] cannot cross into a process" in error.message


async def test_resources_are_opened_once_in_each_process_and_closed_at_its_end(
    tasks: ModuleType, ledger: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match="'connection' is not open here"):
        tasks.connection()
    async with working(tasks.app, "default", pool=2):
        await asyncio.gather(*(tasks.add.call(n, n) for n in range(10)))
    opened, closed = ledger_lines(ledger, "open"), ledger_lines(ledger, "close")
    assert len(opened) == 2
    assert {pid for _, _, pid in opened} == {pid for _, _, pid in closed}
    assert [record.getMessage() for record in caplog.records if record.name == "model"] == ["the model is loaded"] * 2


async def test_a_resource_that_cannot_be_opened_is_the_workers_trouble(
    tasks: ModuleType, tmp_path: Path, ledger: Path
) -> None:
    os.environ["HOLDFAST_TEST_LEDGER"] = str(tmp_path)  # a folder; restored with the fixture's own change
    heard: list[Any] = []
    async with working(tasks.app, "default", pool=1) as running:
        running.worker.on("worker_error")(heard.append)
        job = await tasks.add.enqueue(1, 2)
        await eventually(lambda: heard)
        os.environ["HOLDFAST_TEST_LEDGER"] = str(ledger)
        assert await job.result() == 3
        assert (await job.job()).counters.failures == 0
    assert heard[0].detail.startswith("its process could not start: IsADirectoryError: ")


# --- time-outs


@pytest.mark.parametrize("how", ["sleeps", "ignores", "spins", "leaks"])
async def test_a_handler_past_its_time_is_gone_within_the_grace_time(
    tasks: ModuleType, ledger: Path, tmp_path: Path, how: str
) -> None:
    pidfile = tmp_path / "pid"
    async with working(tasks.app, pool=1, grace=1.0) as running:
        handle = await tasks.hangs.options(job_id="h").enqueue(how, str(pidfile))
        error = await failure(handle.result())
        assert (error.type, error.kind) == ("TimedOut", "timeout")
        assert (await handle.job()).counters.timeouts == 2
        pids = [pid for _, _, pid in ledger_lines(ledger, "start")]
        assert len(set(pids)) == 2
        assert not any(map(is_there, pids))  # a job is told only when its process is gone
        if how == "leaks":
            await eventually(lambda: not is_there(int(pidfile.read_text())))
        assert await tasks.add.call(1, 1) == 2
        assert len(running.worker._run.parts.pool.processes) == 1


async def test_jobs_that_come_while_their_handler_is_imported_have_their_time_too(tasks: ModuleType) -> None:
    async with tasks.app:
        handles = [await tasks.late.enqueue() for _ in range(2)]  # both in one process, at once
        async with working(tasks.app, pool=1, grace=0.4):
            for handle in handles:
                assert (await failure(handle.result(10))).type == "TimedOut"


async def test_the_first_jobs_of_a_handler_have_their_time_each_though_its_app_is_open_already(
    tasks: ModuleType,
) -> None:
    """Then the import is over before the second is looked at, of which the worker knew nothing when it sent that."""
    async with working(tasks.app, pool=1, grace=0.4):
        assert await tasks.add.call(1, 2) == 3
        await tasks.late.enqueue_many(tasks.late.options(job_id=each).args() for each in "ab")
        assert [(await failure(tasks.late.result(each))).type for each in "ab"] == ["TimedOut"] * 2
        assert [(await tasks.late.status(each)).counters.releases for each in "ab"] == [0, 0]


async def test_a_coroutine_past_its_time_may_clean_up(tasks: ModuleType, ledger: Path) -> None:
    async with working(tasks.app, pool=1, grace=2.0):
        assert (await failure(tasks.waits.call())).type == "TimedOut"
    assert len(ledger_lines(ledger, "cleaned")) == 1


async def test_healthy_jobs_are_let_finish_before_their_process_is_ended(
    tasks: ModuleType, ledger: Path, gate: Gate
) -> None:
    async with working(tasks.app, pool=1, grace=0.4) as running:
        healthy = await tasks.holds.options(job_id="healthy").enqueue(str(gate))
        await eventually(lambda: ledger_lines(ledger, "start"))
        late = await tasks.late.options(job_id="late").enqueue()
        await eventually(lambda: len(running.worker._run.parts.pool.processes) == 2, "a replacement is there")
        assert await tasks.add.call(1, 2) == 3  # in the replacement
        assert (await late.job()).state == State.ACTIVE  # not given to anybody else while it runs
        gate.open()
        assert await healthy.result() == ledger_lines(ledger, "late")[0][2]
        assert (await failure(late.result())).type == "TimedOut"


@every_store
async def test_a_handler_that_blocks_its_loop_costs_others_in_its_process_nothing(
    tasks: ModuleType, ledger: Path
) -> None:
    async with working(tasks.app, pool=1, grace=0.4, drain=1):
        blocks = await tasks.blocks.enqueue()
        await eventually(lambda: ledger_lines(ledger, "blocks"))
        innocent = await tasks.innocent.enqueue()  # does not even start
        assert await innocent.result() == 2
        assert (await failure(blocks.result())).type == "TimedOut"
        counters = (await innocent.job()).counters
        assert (counters.timeouts, counters.releases, counters.stalls) == (0, 0, 0)


@every_store
async def test_a_task_of_a_handlers_own_that_blocks_the_loop_costs_others_no_time_out(
    tasks: ModuleType, ledger: Path
) -> None:
    """Where nobody knows who blocks it, all are suspect, and the one that does it is found out when it is alone."""
    async with working(tasks.app, pool=1, grace=0.4, drain=0.5):
        innocent = await tasks.is_quick.enqueue()
        await eventually(lambda: ledger_lines(ledger, "quick"))
        blocks = await tasks.blocks_elsewhere.enqueue()
        assert (await failure(blocks.result())).type == "TimedOut"
        await innocent.result()
        counters = (await innocent.job()).counters
        assert (counters.timeouts, counters.releases, counters.failures) == (0, 0, 0)


@every_store
async def test_who_blocks_the_loop_pays_nothing_for_a_thread_that_hangs_beside_it(
    tasks: ModuleType, ledger: Path
) -> None:
    async with working(tasks.app, pool=1, grace=0.4, drain=0.5):
        late = await tasks.late.options(timeout=3).enqueue()  # so that the other begins beside it
        await eventually(lambda: ledger_lines(ledger, "late"))
        computes = await tasks.computes.enqueue()
        assert await computes.result() == 2
        assert (await failure(late.result())).type == "TimedOut"
        counters = (await computes.job()).counters
        assert counters == Counters(attempts=2)


async def test_what_a_thread_has_done_counts_though_the_loop_of_its_process_is_blocked(
    tasks: ModuleType, ledger: Path, gate: Gate
) -> None:
    async with working(tasks.app, pool=1, grace=0.4, drain=5):
        brief = await tasks.brief.enqueue(str(gate))
        await tasks.blocks.enqueue()
        await eventually(lambda: ledger_lines(ledger, "blocks"))
        gate.open(1)
        assert await brief.result() is None
        assert (await brief.job()).counters.attempts == 1


# --- capacity


async def test_a_large_job_is_not_starved_by_small_ones(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    """Each small one takes what is let through the gate, one by one, until the large one has run."""

    def briefs() -> int:
        return len(ledger_lines(ledger, "brief"))

    async with working(tasks.app, pool=1):
        await tasks.brief.enqueue_many(tasks.brief.args(str(gate)) for _ in range(20))
        gate.open(4)
        await eventually(lambda: briefs() == 4)
        large, let = asyncio.create_task(tasks.add.call(1, 2)), 4
        while not large.done():
            gate.open()
            let += 1
            await eventually(lambda let=let: briefs() == let or large.done())
        assert await large == 3
        assert let < 10
        gate.open(20 - let)
        await eventually(lambda: briefs() == 20)


async def test_no_room_is_kept_for_a_queue_that_is_paused(tasks: ModuleType, gate: Gate) -> None:
    async with working(tasks.app, "default", "half", pool=1) as running:
        await tasks.app.queue("default").pause()
        await tasks.add.enqueue(1, 2)
        await tasks.brief.enqueue(str(gate))
        await eventually(lambda: running.worker.active == 1)
        await tasks.brief.enqueue(str(gate))
        await eventually(lambda: running.worker.active == 2)
        gate.open(2)


async def test_a_queue_of_higher_priority_goes_first(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    gate.open()
    tasks.app.queue("half", priority=5)
    async with tasks.app:
        for number in range(3):
            await tasks.dies.options(job_id=f"low-{number}").enqueue("once")
            await tasks.holds.options(job_id=f"high-{number}").enqueue(str(gate))
        await burst(tasks.app, pool=1)
    order = [id for _, id, _ in ledger_lines(ledger, "start")]
    assert [id[:-2] for id in order[:3]] == ["high"] * 3


@every_store
async def test_jobs_that_wait_for_a_full_pool_do_not_keep_the_worker_busy(
    tasks: ModuleType, ledger: Path, gate: Gate
) -> None:
    @tasks.app.task(queue="quick")
    async def quick() -> int:
        return 1

    tasks.app.store = Counted(tasks.app.store)
    async with working(tasks.app, pool=1, poll=30) as running:
        first = await tasks.add.enqueue(1, 2)  # so that the other queue was served less recently
        await first.result()
        held = [await tasks.holds.enqueue(str(gate)) for _ in range(4)]
        await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
        before = tasks.app.store.turns
        for _ in range(5):
            assert await quick.call() == 1
        assert tasks.app.store.turns - before < 50
        assert running.worker.active == 2
        gate.open()
        for handle in held:
            await handle.result()


class Counted:
    """A store that counts the turns."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.turns = 0

    async def settle_and_claim(self, *args: Any, **kwargs: Any) -> Any:
        self.turns += 1
        return await self._store.settle_and_claim(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


# --- deaths


@every_store
async def test_a_process_that_dies_costs_its_job_one_stall(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        handle = await tasks.dies.enqueue("once")
        assert await handle.result() == 2
        counters = (await handle.job()).counters
        assert (counters.stalls, counters.failures, counters.releases) == (1, 0, 0)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("segv", "it killed its process 3 times: signal 11, SIGSEGV"),
        ("exit 3", "exit code 3"),
        ("exit 75", "exit code 75"),  # which some programs use for "try again later"
        ("mute", "it closed the line to its worker"),
    ],
)
async def test_a_job_that_keeps_killing_its_process_ends_at_its_stall_limit(
    tasks: ModuleType, how: str, told: str
) -> None:
    async with working(tasks.app, pool=2) as running:
        error = await failure(tasks.dies.call(how))
        assert (error.type, error.kind) == ("ProcessDied", "stall")
        assert told in error.message
        assert await tasks.add.call(1, 2) == 3
        report = await running.end()
    assert (report.failed, report.released, report.lost) == (1, 2, 0)


async def test_a_dead_process_costs_nobody_else(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    async with working(tasks.app, pool=2):
        held = [await tasks.holds.enqueue(str(gate)) for _ in range(2)]  # both in one process
        await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
        assert await tasks.dies.call("once") == 2
        gate.open()
        assert len({await handle.result() for handle in held}) == 1
        assert all([(await handle.job()).counters.attempts == 1 for handle in held])


# --- killing


@every_store
async def test_a_running_job_is_killed(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    async with working(tasks.app, pool=1):
        handle = await tasks.holds.enqueue(str(gate))
        await eventually(lambda: ledger_lines(ledger, "start"))
        ((_, _, pid),) = ledger_lines(ledger, "start")
        answer = await handle.cancel(running="kill")
        assert (answer.reply, answer.signalled) == ("ok", True)
        await eventually(lambda: not is_there(pid))
        await eventually(lambda: _is_in(handle, State.CANCELLED))
        assert await tasks.add.call(1, 2) == 3


async def _is_in(handle: Any, state: State) -> bool:
    return (await handle.job()).state == state


async def test_a_handler_that_is_deaf_to_a_cancel_is_ended_by_its_time_out(tasks: ModuleType, ledger: Path) -> None:
    async with working(tasks.app, pool=1, grace=0.4):
        handle = await tasks.hangs.options(timeout=1).enqueue("sleeps", "")
        await eventually(lambda: ledger_lines(ledger, "start"))
        assert (await handle.cancel(running="signal")).signalled
        await eventually(lambda: _is_in(handle, State.CANCELLED))
        ((_, _, pid),) = ledger_lines(ledger, "start")
        assert not is_there(pid)


async def test_a_coroutine_that_is_deaf_to_a_cancel_is_ended_by_its_time_out(app: Holdfast) -> None:
    began = asyncio.Event()

    @app.task(timeout=0.5)
    async def deaf() -> None:
        began.set()
        await asyncio.Event().wait()

    async with working(app):
        handle = await deaf.enqueue()
        await began.wait()
        assert (await handle.cancel(running="signal")).signalled
        await eventually(lambda: _is_in(handle, State.CANCELLED))


@every_store
@pytest.mark.parametrize("how", ["kill", "delete", "complete"])
async def test_others_in_a_killed_process_are_handed_back(
    tasks: ModuleType, ledger: Path, gate: Gate, how: str
) -> None:
    """Whatever ends the process of a neighbour: they pay nothing for it."""
    async with working(tasks.app, pool=1, lease=1.5):
        first, second = [await tasks.holds.enqueue(str(gate)) for _ in range(2)]
        await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
        if how == "kill":
            await first.cancel(running="kill")
        elif how == "delete":
            await tasks.app.delete_chain(first.queue, first.id)
        else:
            await tasks.app.complete_chain(first.queue, first.id, 1)
        await eventually(lambda: len(ledger_lines(ledger, "start")) == 3)
        gate.open()
        await second.result()
        counters = (await second.job()).counters
        assert (counters.attempts, counters.releases, counters.stalls) == (2, 0, 0)


@pytest.mark.parametrize("executor", ["inline", "thread"])
async def test_killing_without_a_process_is_a_signal_and_a_cancelled_coroutine(app: Holdfast, executor: Any) -> None:
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(executor=executor)
    async def stubborn(job: Job) -> str:
        loop.call_soon_threadsafe(began.set)
        return await (job.signal.wait() if executor == "thread" else asyncio.Event().wait())  # type: ignore[return-value]

    async with working(app):
        handle = await stubborn.enqueue()
        await began.wait()
        assert (await handle.cancel(running="kill")).signalled
        ended = State.COMPLETED if executor == "thread" else State.CANCELLED  # completing all the same stands
        await eventually(lambda: _is_in(handle, ended))


# --- recycling


async def test_processes_are_recycled_by_job_count(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1, recycle_jobs=2):
        pids = [(await tasks.where.call())["pid"] for _ in range(6)]
    assert [len(list(group)) for _, group in itertools.groupby(pids)] == [2, 2, 2]


async def test_a_recycled_process_makes_no_room_before_its_jobs_are_done(
    tasks: ModuleType, ledger: Path, gate: Gate
) -> None:
    async with working(tasks.app, pool=1, recycle_jobs=1) as running:
        held = [await tasks.holds.enqueue(str(gate)) for _ in range(4)]
        await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
        assert running.worker._run.parts.pool.units.jobs([UnitNeed(50)]) == 0
        assert running.worker.active == 2
        gate.open()
        assert len({await handle.result() for handle in held}) >= 2  # two may come at once, and no process has a third


async def test_processes_are_recycled_by_memory(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1, recycle_memory=150 << 20):
        pids = [await tasks.grows.call(1), await tasks.grows.call(200), await tasks.grows.call(1)]
    assert pids[0] == pids[1] != pids[2]


# --- shutdown, zombies and busy interpreters


async def test_a_shutdown_signals_and_then_kills(tasks: ModuleType, ledger: Path, gate: Gate) -> None:
    async with working(tasks.app, pool=2, drain=0.05, grace=0.5) as running:
        obedient = await tasks.holds.options(job_id="obedient").enqueue(str(gate))
        deaf = await tasks.hangs.options(job_id="deaf", timeout=60).enqueue("ignores", "")
        await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
        report = await running.end()
        assert report.released == 2
        for handle in (obedient, deaf):
            record = await handle.job()
            assert (record.state, record.counters.releases, record.counters.stalls) == (State.WAITING, 1, 0)
    assert not any(is_there(pid) for _, _, pid in ledger_lines(ledger, "start"))


async def test_the_log_says_whose_handlers_could_stop_the_heartbeats(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast")
    for executor in ("inline", "thread"):
        app.task(name=executor, executor=executor)(lambda: None)
    async with app:
        await burst(app)
    told = [record.getMessage() for record in caplog.records if "interpreter lock" in record.getMessage()]
    assert [line.partition(".")[0] for line in told] == ["heartbeat_hint: def handlers run inline: inline"]


# --- declarations


def test_a_task_that_a_process_cannot_import_is_refused(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match=r"task 'local': executor='process' needs a function of a module"):

        @app.task(executor="process")
        def local() -> None: ...


async def test_a_task_of_a_script_is_refused_when_a_worker_starts(tasks: ModuleType) -> None:
    def run() -> None: ...

    run.__module__, run.__qualname__ = "__main__", "run"
    tasks.app.task(executor="process", name="scripted")(run)
    with pytest.raises(ConfigError, match=r"task 'scripted': .* cannot run from __main__.*move the task to a module"):
        await burst(tasks.app)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"executor": "process", "size": 0}, "size=0: a whole number from 1"),
        ({"executor": "process", "size": 101}, "a whole number from 1 to 100"),
        ({"size": True}, "size=True: a whole number from 1"),
        ({"executor": "sandbox", "sandbox": Sandbox(), "size": 5}, "each job there has a whole process"),
        ({"executor": "fork"}, "one of 'inline', 'thread', 'process', 'sandbox'"),
        ({"executor": "sandbox"}, "belong together"),
        ({"executor": "inline", "completion": "staged"}, "would hold up the worker's event loop"),
    ],
)
def test_options_that_cannot_be_right(app: Holdfast, options: dict[str, Any], told: str) -> None:
    def handler() -> None: ...

    handler.__qualname__ = "handler"
    with pytest.raises(ConfigError, match=told):
        app.task(**options)(handler)


async def test_what_a_queue_says_of_its_executor_counts_whenever_it_is_said(tasks: ModuleType) -> None:
    with pytest.raises(ConfigError, match=r"queue 'late': executor='fork': one of 'inline'"):
        tasks.app.queue("late", executor="fork")
    task = tasks.app.task(queue="late", name="plain again")(tasks.plain)
    tasks.app.queue("late", executor="process")
    assert task.runs_in == "process"
    tasks.app.queue("boxed", handler="process_tasks:plain", executor="sandbox")
    with pytest.raises(ConfigError, match=r"task 'boxed:process_tasks:plain': .* belong together"):
        await burst(tasks.app)


@pytest.mark.parametrize("option", ["pool", "recycle_jobs", "recycle_memory"])
def test_worker_options_that_cannot_be_right(app: Holdfast, option: str) -> None:
    app.task(retry=Retry())(len)
    with pytest.raises(ConfigError, match=f"{option}=0: a whole number from 1"):
        app.worker(**{option: 0})


async def test_what_a_process_logs_forges_no_line_and_steers_no_terminal(tasks: ModuleType) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    handler.setFormatter(logging.Formatter("LINE %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        async with working(tasks.app, pool=1):
            await tasks.forges.options(job_id="a\nb").call()
            await eventually(lambda: "it went wrong" in heard.getvalue())
    finally:
        logging.getLogger().removeHandler(handler)
    lines = heard.getvalue().split("\n")
    assert all(line.startswith(("LINE ", "  ")) for line in lines if line)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", heard.getvalue())
    told = r"fine\n2026-01-01 00:00:00 ERROR holdfast: forged\r\x1b[2J\x9b\u202e\u2028"
    assert rf"LINE strange\nname {told}" in lines
    assert "  Traceback (most recent call last):" in lines
    assert "  2026-01-01 00:00:00 ERROR holdfast: forged\\r\\x1b[2J\\x9b\\u202e\\u2028" in lines
