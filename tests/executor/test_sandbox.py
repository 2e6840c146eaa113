"""The sandbox: attacks fail with an error on the job and hurt nobody; what is permitted works."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from process_case import is_there, worker_process
from support import burst, eventually, working

from holdfast import ConfigError, JobFailed, Retry, Sandbox
from holdfast.executor.process.process_tree import descendants
from holdfast.executor.sandbox import landlock
from holdfast.executor.sandbox.enter import missing

LIMITS = {
    "eat memory": "MemoryError", "eat shared memory": "OSError", "open too many": "OSError", "clone3": "OSError",
    "more memory": "ValueError", "change its attributes, newly": "OSError",
    "change its extended attributes, newly": "OSError",
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def tasks(tmp_path: Path, server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of handlers, with a store, a secret and folders of its own."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "data").write_text("data")
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("HOLDFAST_TEST_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("HOLDFAST_TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_TEST_PORT", str(server.getsockname()[1]))
    monkeypatch.setenv("HOLDFAST_TEST_COLOUR", "blue")
    sys.modules.pop("sandbox_tasks", None)
    return importlib.import_module("sandbox_tasks")


async def failure(call: Any) -> Any:
    with pytest.raises(JobFailed) as caught:
        await call
    return caught.value.error


async def test_no_attack_comes_through(tasks: ModuleType, tmp_path: Path, server: socket.socket) -> None:
    at = {
        "secret": str(tmp_path / "secret"), "folder": str(tmp_path), "store": str(tmp_path / "jobs.db"),
        "worker": str(os.getpid()), "port": str(server.getsockname()[1]), "unix": str(tmp_path / "unix"),
    }  # fmt: skip
    told, priority = {}, os.getpriority(os.PRIO_PROCESS, 0)
    with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as abstract:
        for listening, place in ((unix, at["unix"]), (abstract, "\0holdfast-test")):
            listening.bind(place)
            listening.listen()
        async with working(tasks.app, pool=1):
            for name in tasks.ATTACKS:
                try:
                    told[name] = await tasks.attack.call(name, at)
                except JobFailed as error:
                    told[name] = error.error
    assert [name for name, error in told.items() if error == "came through"] == []
    kinds = {name: error.type for name, error in told.items()}
    assert kinds == {name: LIMITS.get(name, "PermissionError") for name in tasks.ATTACKS}
    hint = "(its sandbox allows only what Python itself needs)"
    assert [name for name, kind in kinds.items() if kind == "PermissionError" and hint not in told[name].message] == []
    assert told["eat memory"].message.endswith("(its sandbox allows 256 MB)")
    assert told["open too many"].message.endswith("(its sandbox allows 32 open files)")
    assert (tmp_path / "secret").read_text() == "secret"
    assert os.getpriority(os.PRIO_PROCESS, 0) == priority


async def test_a_folder_that_may_be_written_is_no_way_out(tasks: ModuleType, tmp_path: Path) -> None:
    at = {"secret": str(tmp_path / "secret"), "folder": str(tmp_path)}
    came = {}
    async with working(tasks.app, pool=1):
        for name in tasks.WAYS_OUT:
            came[name] = (await failure(tasks.leave.call(name, at))).message
    refused = ("its sandbox allows only", "cross-device")  # with which Landlock asks to copy instead
    assert [name for name, message in came.items() if not any(word in message for word in refused)] == []
    assert (tmp_path / "secret").read_text() == "secret"
    assert sorted(os.listdir(tmp_path / "out")) == ["link", "made"]


async def test_a_sandbox_leaves_no_file_that_lends_its_rights(tasks: ModuleType, tmp_path: Path) -> None:
    folder, told = tmp_path / "out", {}
    async with working(tasks.app, pool=1):
        for name in tasks.LOANS:
            try:
                told[name] = await tasks.lends.call(name, str(folder))
            except JobFailed as error:
                told[name] = error.error.type
    assert set(told.values()) == {"PermissionError", "OSError"}  # or the call is not there at all
    assert os.listdir(folder) == []


async def test_a_sandbox_makes_other_files_with_their_modes(tasks: ModuleType, tmp_path: Path) -> None:
    async with working(tasks.app, pool=1):
        await tasks.makes_files.call(str(tmp_path / "out"))
    assert (tmp_path / "out" / "made").stat().st_mode == 0o100750
    assert (tmp_path / "out" / "pipe").is_fifo()


async def test_a_sandbox_cannot_put_off_its_time_out(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1, grace=0.2):
        assert (await failure(tasks.takes_more_time.call())).type == "TimedOut"


async def test_what_is_permitted_works(
    tasks: ModuleType, tmp_path: Path, server: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(tasks.app, pool=1):
        handle = await tasks.honest.enqueue(str(tmp_path), server.getsockname()[1])
        assert await handle.result() == ["blue", "unseen"]
        assert (await handle.job()).progress.fraction == 0.5
        assert (tmp_path / "out" / "copy").read_text() == "data"
        with server.accept()[0] as connection:
            assert connection.recv(5) == b"hello"
        with socket.create_server(("127.0.0.1", 0)) as other:
            error = await failure(tasks.connects_elsewhere.call(other.getsockname()[1]))
        assert error.type == "PermissionError"
        assert f"connect=[{server.getsockname()[1]}]" in error.message
        assert set(await tasks.environment.call()) <= {"LANG", "PYTHONPATH", "LC_CTYPE"}
    assert [record.getMessage()[:11] for record in caplog.records if record.name == "boxed"] == ["from inside"]


@pytest.mark.parametrize("heedless", [False, True])
async def test_processor_time_is_limited_for_each_attempt(tasks: ModuleType, heedless: bool) -> None:
    async with working(tasks.app, pool=1):
        error = await failure(tasks.computes.call(heedless))
        assert (error.type, error.kind) == ("SandboxLimit", "failure")
        assert "it used more than the 1 s of processor time that its sandbox allows" in error.message
        assert "LANG" in await tasks.environment.call()


async def test_what_earlier_jobs_of_a_process_used_is_not_the_next_ones(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        pids = [await tasks.computes_for.call(0.7) for _ in range(2)]
        assert len(set(pids)) == 1
        assert (await failure(tasks.computes_for.call(1.8))).type == "SandboxLimit"


async def test_the_time_of_programs_is_the_attempts_too(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        error = await failure(tasks.has_it_computed.options(timeout=30).call())
    assert error.type == "SandboxLimit"
    assert "processor time" in error.message


async def test_threads_are_counted(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        error = await failure(tasks.starts_threads.options(timeout=30).call())
    assert error.type == "SandboxLimit"
    assert "more than 1000 threads" in error.message


async def test_what_a_sandbox_lacked_is_told(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        for task, args, hint in (
            (tasks.returns_much, (200 << 20,), "its sandbox allows 256 MB"),
            (tasks.returns_what_it_has, (60 << 20,), "its sandbox allows 100 MB"),  # enough to make it, not to send it
            (tasks.asks_for_much, (), "(its sandbox allows 256 MB)"),
            (tasks.looks_up_a_name, (), "(its sandbox allows only what Python itself needs)"),
        ):
            assert hint in (await failure(task.call(*args))).message
        error = await failure(tasks.returns_too_much.call())
    assert error.type == "ResultTooLarge"
    assert "has 67108866 bytes, and max_result is 1048576" in error.message


async def test_processes_are_counted_where_programs_are_allowed(tasks: ModuleType) -> None:
    others = len(descendants(os.getpid()))  # servers of other tests
    async with working(tasks.app, pool=1):
        error = await failure(tasks.explodes.call(7))
        assert error.type == "SandboxLimit"
        assert "it had more than the 20 processes that its sandbox allows" in error.message
        await eventually(lambda: len(descendants(os.getpid())) < others + 20)
        assert "LANG" in await tasks.environment.call()


async def test_no_process_gets_away(tasks: ModuleType, tmp_path: Path) -> None:
    async with working(tasks.app, pool=1):
        assert (await failure(tasks.is_born_to_the_worker.call())).type == "PermissionError"
        assert (await failure(tasks.leaves_a_daemon.call(str(tmp_path / "out" / "pid")))).type == "ProcessDied"
        pid = int((tmp_path / "out" / "pid").read_text())
        assert not is_there(pid)  # its process was gone only when everything of it was


def is_in_the_table(pid: int) -> bool:
    """True while the process is there, or nobody has waited for it."""
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("raises", [False, True])
async def test_what_a_job_started_ends_with_it(tasks: ModuleType, tmp_path: Path, raises: bool) -> None:
    pidfile = tmp_path / "out" / "pid"
    async with working(tasks.app, pool=1) as running:
        handle = await tasks.returns_before_its_programs.enqueue(str(pidfile), raises)
        await eventually(lambda: _is_in(handle, "failed" if raises else "completed"))
        started = [int(pid) for pid in pidfile.read_text().split()]
        await eventually(lambda: not any(map(is_there, started)))
        (process,) = running.worker._run.parts.pool.processes
        again = await tasks.returns_before_its_programs.call(str(pidfile), False)
        assert again == process.pid  # which goes on, and has waited for them
        assert not any(map(is_in_the_table, started))


async def test_programs_of_a_frozen_worker_end_with_its_lease(tasks: ModuleType, tmp_path: Path) -> None:
    pidfile = tmp_path / "out" / "pid"
    async with tasks.app:
        await tasks.starts_and_waits.enqueue(str(pidfile))
        with worker_process("--lease", "2", app="sandbox_tasks:app") as frozen:
            await eventually(lambda: pidfile.exists() and pidfile.read_text())
            pid = int(pidfile.read_text())
            frozen.send_signal(signal.SIGSTOP)
            await eventually(lambda: not is_there(pid))


async def test_what_goes_on_after_the_result_is_bounded_too(tasks: ModuleType) -> None:
    others = len(descendants(os.getpid()))  # servers of other tests
    async with working(tasks.app, pool=1):
        await tasks.explodes_afterwards.call(6)
        await eventually(lambda: len(descendants(os.getpid())) < others + 20)
        pid = await tasks.computes_afterwards.call()
        await eventually(lambda: not is_there(pid))
        assert "LANG" in await tasks.environment.call()


async def test_the_time_of_a_program_is_counted_once(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        await tasks.waits_late.call()


async def test_what_a_sandbox_says_does_not_hurt_its_worker(
    tasks: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(tasks.app, pool=1):
        await tasks.names_loggers.call()
        assert [record.name[:16] for record in caplog.records if record.getMessage() == "listen"] == ["strange." * 2]
        assert not [name for name in logging.Logger.manager.loggerDict if name.startswith("strange")]
        assert "does not keep to the protocol" in (await failure(tasks.nests.call())).message


@pytest.mark.parametrize(
    ("what", "kind", "told"),
    [
        ("result", "ResultTooLarge", "has 1002 bytes, and max_result is 1000"),
        ("error", "x" * 500, "x" * 8000),
        ("frame", "ProcessDied", "does not keep to the protocol: a frame of 8388608 bytes"),
    ],
)
async def test_what_a_sandbox_sends_is_bounded_by_its_worker(
    tasks: ModuleType, what: str, kind: str, told: str
) -> None:
    async with working(tasks.app, pool=1):
        error = await failure(tasks.says_too_much.call(what))
    assert error.type == kind
    assert told in error.message
    assert len(error.message) <= 8000
    assert "x" not in error.fields


async def test_a_checkpoint_that_a_sandbox_lies_about_is_not_kept(
    tasks: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(tasks.app, pool=1):
        handle = await tasks.says_too_much.enqueue("checkpoint")
        await handle.result()
        assert (await handle.job()).checkpoint is None
    assert "a checkpoint is at most 64 kB, and this one has 100002 bytes" in caplog.text


async def test_a_result_that_is_too_large_fails_a_sandboxed_job_for_good(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        assert len(await tasks.returns.call(998)) == 998
        error = await failure(tasks.returns.options(retry=Retry(failures=5)).call(999))
    assert (error.type, error.kind) == ("ResultTooLarge", "permanent")
    assert error.fields["size"] == 1001


async def test_a_worker_takes_a_bounded_number_of_reports_at_a_time(tasks: ModuleType) -> None:
    under_way: list[int] = [0]

    async def counted(*args: Any, **kwargs: Any) -> Any:
        under_way.append(under_way[-1] + 1)
        try:
            return await progress(*args, **kwargs)
        finally:
            under_way.append(under_way[-1] - 1)

    progress, tasks.app.store.progress = tasks.app.store.progress, counted
    async with working(tasks.app, pool=1):
        assert await tasks.floods.call() == 2000
    assert 1 < max(under_way) <= 100


async def test_programs_are_in_the_same_sandbox(tasks: ModuleType, tmp_path: Path) -> None:
    async with working(tasks.app, pool=1):
        said, error = await tasks.starts_a_program.call(str(tmp_path / "secret"))
        assert said == "hi\n"
        assert "Permission denied" in error
        assert "Operation not permitted" in await tasks.signals_from_a_program.call(os.getpid())


async def test_a_sandbox_cannot_enqueue_by_continuing_its_chain(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        assert "a sandboxed handler cannot continue its chain" in (await failure(tasks.goes_on.call())).message


async def test_a_folder_that_is_not_there_is_told_by_the_job(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        error = await failure(tasks.lacks_its_folder.call())
    assert error.type == "FileNotFoundError"
    assert "its process could not start" in error.message
    assert "/nowhere/at/all" in error.message


async def test_a_limit_above_the_workers_own_is_told_by_the_job(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1):
        error = await failure(tasks.wants_more_than_its_worker.call())
    assert error.type == "ConfigError"
    assert "Sandbox(open_files=1099511627776): its worker itself may have no more than" in error.message


async def test_an_interpreter_that_does_not_start_is_the_workers_trouble(
    tasks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    async with working(tasks.app, pool=1) as running:
        running.worker.on("worker_error")(heard.append)
        job = await tasks.environment.enqueue()
        await eventually(lambda: heard)
        assert (await job.job()).counters.failures == 0
    assert "its process could not start: FileNotFoundError" in heard[0].detail
    assert "'/nowhere/python'" in heard[0].detail


async def test_a_sandbox_starts_from_a_spare_and_another_is_kept(tasks: ModuleType) -> None:
    others = set(descendants(os.getpid()))  # servers of other tests

    def processes() -> set[int]:
        return {known.pid for known in descendants(os.getpid()) if known not in others}

    kinds = 2  # that may see one variable of the environment, or none
    async with working(tasks.app, pool=1):
        spares = await eventually(lambda: processes() if len(processes()) == kinds else None)
        pid = await tasks.number.call()
        assert pid in spares
        await eventually(lambda: len(processes() - {pid}) == kinds)
        os.kill(*(processes() - {pid} - spares), signal.SIGKILL)  # one that dies while it waits is not used
        await eventually(lambda: len(processes()) == kinds)
        handle = await tasks.hangs_in_the_box.options(timeout=60).enqueue()
        await eventually(lambda: _is_in(handle, "active"))
        await handle.cancel(running="kill")
        assert await tasks.number.call() not in spares
    assert processes() == set()


async def test_a_sandbox_past_its_time_is_killed_and_may_be_killed(tasks: ModuleType) -> None:
    async with working(tasks.app, pool=1, grace=0.4):
        assert (await failure(tasks.hangs_in_the_box.call())).type == "TimedOut"
        handle = await tasks.hangs_in_the_box.options(timeout=60).enqueue()
        await eventually(lambda: _is_in(handle, "active"))
        assert (await handle.cancel(running="kill")).signalled
        await eventually(lambda: _is_in(handle, "cancelled"))


async def _is_in(handle: Any, state: str) -> bool:
    return (await handle.job()).state == state


@pytest.mark.parametrize(
    ("version", "sandbox", "told"),
    [
        (0, Sandbox(), ["Landlock for files (Linux 6.2)"]),
        (2, Sandbox(), ["Landlock for files (Linux 6.2); it has version 2 of 3"]),
        (3, Sandbox(), []),
        (3, Sandbox(connect=[80]), ["Landlock for TCP ports (Linux 6.7), which connect= needs; it has version 3 of 4"]),
        (
            4,
            Sandbox(subprocess=True),
            ["Landlock for signals (Linux 6.12), which subprocess=True needs; it has version 4 of 6"],
        ),
    ],
)
def test_what_a_kernel_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, version: int, sandbox: Sandbox, told: list[str]
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: version)
    assert missing(sandbox) == told


async def test_a_worker_refuses_a_sandbox_that_its_system_cannot_keep(
    tasks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match=r"task 'attack': executor='sandbox' cannot be kept here: .* lacks Linux"):
        await burst(tasks.app)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"read": "/tmp"}, "give a list"),
        ({"read": ["tmp"]}, "give absolute paths"),
        ({"write": [5]}, "is no path"),
        ({"connect": [70000]}, "a TCP port is a whole number from 1 to 65535"),
        ({"connect": ["443"]}, "a TCP port is a whole number from 1 to 65535"),
        (
            {"connect": ["s3.example.com:443"]},
            "the kernel rules ports, not hosts, so a host cannot be kept. Give the port",
        ),
        ({"connect": ["s3.example.com"]}, "the kernel rules ports, not hosts"),
        ({"connect": ["[2001:db8::1]:443"]}, "the kernel rules ports, not hosts"),
        ({"connect": [("10.0.0.1", 443)]}, "talk to the host in a task outside the sandbox, and hand over files"),
        ({"env": ["A=B"]}, "the name of an environment variable"),
        ({"memory": 5}, "memory=5): a whole number from"),
        ({"memory": 1e9}, "memory=1000000000.0): a whole number from"),
        ({"cpu_seconds": 0.1}, "cpu_seconds=0.1): a number from 1"),
        ({"open_files": True}, "open_files=True): a whole number from"),
        ({"processes": 0}, "processes=0): a whole number from 1"),
    ],
)
def test_permissions_that_cannot_be_right(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Sandbox(**options)
    assert told in str(caught.value)
