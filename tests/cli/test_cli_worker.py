"""`holdfast worker` and `holdfast events --follow` as processes: signals, bursts, and several processes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType

import pytest
from cli_shop import Process, Shop, in_shop
from support import until

from holdfast import ProcessesReport, Worker
from holdfast.app.options import OF_A_PROGRAM, WORKER_COMMAND_OPTIONS
from holdfast.cli.worker.worker import _loop_factory, worker
from holdfast.supervisor.keeper import Keeper

Start = Callable[..., Process]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


@pytest.fixture
def start(shop: Shop) -> Iterator[Start]:
    """Starts commands, none of which outlives the test."""
    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(closing(Process(shop.folder, *words)))


def events(log: str) -> list[str]:
    """Return the names of the events in a log, in their order."""
    return re.findall(r"^\d\S+ \S+ [A-Z]+ holdfast: (\w+): ", log, re.MULTILINE)


# --- one worker


def test_a_burst_does_all_there_is_and_says_so(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "send", "to=ann")
    shop.ok("enqueue", "boom")
    code, out, err = start("worker", "--burst", "--name", "w", "--slots", "3").end()
    assert code == 0
    assert events(err) == ["worker_started", "job_completed", "job_failed", "worker_stopping", "worker_stopped"]
    assert out.splitlines() == [
        "worker w serves mail, orders, slow with 3 slots on sqlite:///jobs.db",
        "worker w stopped: 2 started, 1 completed, 1 failed",
    ]


@pytest.mark.parametrize("level", ["info", "error"])
def test_a_terminal_shows_each_line_once(shop: Shop, level: str) -> None:
    words = ["worker", "--burst", "--name", "w", "--log-level", level]
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words], cwd=shop.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "HOLDFAST_APP": "shop:app"}, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout.count("w serves"), done.stdout.count("no job came")) == (1, 1), done.stdout


def test_only_the_queues_that_are_named_are_served(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    shop.ok("enqueue", "buy", 'order={"sku": "7"}', "--id", "b")
    process = start("worker", "shop.py:app", "--queues", "orders, slow", "--burst", "--no-uvloop", "--json")
    assert json.loads(process.line("started"))["queues"] == ["orders", "slow"]
    stopped = json.loads(process.line("stopped"))
    assert (stopped["event"], stopped["completed"]) == ("stopped", 1)
    assert shop.json("jobs", "show", "mail", "a")["state"] == "waiting"


@pytest.mark.parametrize("more", [[], ["--processes", "2"]], ids=["one", "several"])
def test_a_queue_that_the_app_does_not_declare_is_served_and_noted_once(
    shop: Shop, start: Start, more: list[str]
) -> None:
    process = start("worker", "shop.py:app", "--queues", "mail,typo", "--burst", "--no-uvloop", *more)
    process.line("serves mail, typo")
    code, _, err = process.end()
    told = "holdfast: --queues typo: this app declares no such queue; it has mail, orders, slow"
    assert (code, err.splitlines().count(told)) == (0, 1), err


def test_sigterm_lets_a_running_job_finish(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "until_go", "--id", "a")
    process = start("worker", "--name", "w")
    process.line("running")
    process.signal(signal.SIGTERM)
    (shop.folder / "go").write_text("")
    code, out, _ = process.end()
    assert (code, out) == (0, "worker w stopped: 1 started, 1 completed\n")
    assert shop.json("jobs", "show", "slow", "a")["result"] == "gone"


def test_a_second_signal_skips_the_drain(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "until_told", "--id", "a")
    process = start("worker", "--name", "w", "--drain", "10m")
    process.line("running")
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGINT)
    assert process.line("told") == "told shutdown"
    code, out, _ = process.end()
    assert (code, out) == (0, "worker w stopped: 1 started, 1 released\n")
    assert shop.json("jobs", "show", "slow", "a")["state"] == "waiting"


@pytest.mark.parametrize(
    ("task", "did", "named"),
    [
        ("deaf", "1 released, 1 left", "slow/a"),
        ("deaf_thread", "1 released, 1 left", "slow/a"),
        ("deaf_helper", "1 released", "thread asyncio_0"),
        ("leaves_a_thread", "1 completed", "thread for ever"),
    ],
)
def test_a_worker_ends_whatever_its_handlers_do(shop: Shop, start: Start, task: str, did: str, named: str) -> None:
    shop.ok("enqueue", task, "--id", "a")
    process = start("worker", "--name", "w", "--drain", "0", "--grace", "0.2")
    process.line("running")
    process.signal(signal.SIGTERM)
    code, out, err = process.end()
    assert (code, out) == (1, f"worker w stopped: 1 started, {did}\n")
    assert err.splitlines()[-1].startswith(
        "holdfast: the worker has stopped, and what does not end by itself ends with it: "
    )
    assert named in err.splitlines()[-1]
    assert shop.json("jobs", "show", "slow", "a")["state"] in ("waiting", "completed")


def test_several_processes_end_though_a_handler_does_not(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "deaf", "--id", "a")
    process = start("worker", "--processes", "2", "--drain", "0", "--grace", "0.2")
    process.line("running")
    process.signal(signal.SIGTERM)
    code, _, err = process.end()
    assert code == 1
    assert "slow/a" in err


def test_a_worker_that_was_declared_dead_ends_with_an_error_where_it_is_told_to(shop: Shop, start: Start) -> None:
    words = ("--on-evicted", "exit", "--lease", "1", "--grace", "0.5", "--poll", "100ms", "--wedged-after", "1m")
    process = start("worker", "--name", "w", *words)
    process.line("serves")

    async def dismiss() -> None:
        async with shop.app as app:
            for info in await app.workers():
                await app.store.leave(info.session)

    asyncio.run(dismiss())
    code, out, err = process.end()
    assert (code, out) == (1, "worker w stopped (evicted): no job came\n")
    assert err.splitlines()[-1].startswith("holdfast: this worker was declared dead")


def test_an_interrupt_stops_an_idle_worker_without_a_traceback(start: Start) -> None:
    process = start("worker", "--name", "w")
    process.line("serves")
    process.signal(signal.SIGINT)
    code, out, err = process.end()
    assert (code, out) == (0, "worker w stopped: no job came\n")
    assert events(err) == ["worker_started", "worker_stopping", "worker_stopped"]


@pytest.mark.parametrize("module", ["click", "shop"])
def test_an_interrupt_before_the_worker_runs_is_one_line(
    shop: Shop, start: Start, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """While the command line is being imported, and while the app is."""
    waiting = "import signal\nprint('importing', flush=True)\nsignal.pause()\n"
    (shop.folder / f"{module}.py").write_text(waiting)
    monkeypatch.setenv("PYTHONPATH", str(shop.folder))
    process = start("worker", "shop:app")
    process.line("importing")
    process.signal(signal.SIGINT)
    code, out, err = process.end()
    assert (code, out, err.strip()) == (130, "", "holdfast: interrupted")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--slots", "0"], "slots=0: a whole number from 1 to 1000000000"),
        (["--lease", "0.1"], "lease=0.1: at least 0.3 s"),
        (["--drain", "long"], "--drain='long': write seconds (30), or 500ms, 10m, 2h, 1d"),
        (["--queues", ","], "--queues=',' names nothing; write a,b"),
        (["--processes", "0"], "--processes=0: a whole number from 1"),
        (["--processes", "2", "--slots", "0"], "slots=0: a whole number from 1 to 1000000000"),
        (["memory.py", "--processes", "2"], "memory:// is one process's own memory"),
        (["empty.py"], "this app declares no task and no queue; name the queues to serve"),
    ],
)
def test_a_worker_that_cannot_be_right_is_one_line(shop: Shop, words: list[str], told: str) -> None:
    app = "from holdfast import Holdfast\napp = Holdfast('{}')\n"
    (shop.folder / "memory.py").write_text(app.format("memory://") + "app.queue('q', priority=1)\n")
    (shop.folder / "empty.py").write_text(app.format("sqlite:///e.db"))
    interval = sys.getswitchinterval()
    try:
        assert shop.error("worker", *words).startswith(told)
    finally:
        sys.setswitchinterval(interval)


def test_uvloop_is_used_where_it_is_asked_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = ModuleType("uvloop")
    loops.new_event_loop = asyncio.new_event_loop  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uvloop", loops)
    assert [_loop_factory(wanted) for wanted in (None, False, True)] == [None, None, asyncio.new_event_loop]


def test_uvloop_that_is_not_installed_names_the_extra(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    interval = sys.getswitchinterval()
    try:
        assert shop.error("worker", "--uvloop") == (
            "--uvloop needs a package that is missing: pip install 'holdfast-queue[fast]'"
        )
    finally:
        sys.setswitchinterval(interval)


# --- several


def started(process: Process) -> int:
    """Return the process id of the next worker that says it has started."""
    pid: int = json.loads(process.line('"started"'))["pid"]
    return pid


def test_a_burst_of_several_processes_ends_when_all_have_ended(shop: Shop, start: Start) -> None:
    for number in range(5):
        shop.ok("enqueue", "send", f"to=ann{number}")
    code, out, err = start("worker", "--processes", "2", "--burst", "--json", "--name", "w").end()
    lines = [json.loads(line) for line in out.splitlines()]
    stopped = {line["worker"]: line["completed"] for line in lines if line["event"] == "stopped"}
    assert (code, set(stopped), sum(stopped.values())) == (0, {"w-1", "w-2"}, 5)
    assert events(err).count("job_completed") == 5


def test_a_process_that_is_killed_is_replaced_and_sigterm_ends_all(start: Start) -> None:
    process = start("worker", "--processes", "2", "--json")
    first, second = started(process), started(process)
    os.kill(first, signal.SIGKILL)
    third = started(process)
    assert third not in (first, second)
    process.signal(signal.SIGTERM)
    code, out, err = process.end()
    assert code == 0
    assert {json.loads(line)["pid"] for line in out.splitlines()} == {second, third}
    assert "was killed by SIGKILL: starting another in 0.1 s" in err


def test_processes_end_in_order_when_their_keeper_is_killed(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "until_go")
    process = start("worker", "--processes", "2", "--json")
    process.line("running")
    process.signal(signal.SIGKILL)
    (shop.folder / "go").write_text("")
    code, out, _ = process.end()
    assert code == -signal.SIGKILL
    assert sum(json.loads(line)["completed"] for line in out.splitlines() if "stopped" in line) == 1


def kept(script: str, restarts: int | None = None) -> tuple[int, list[str]]:
    """Return how two kept processes ended, and what it said."""
    said: list[str] = []

    async def keep() -> int:
        made = Keeper(
            lambda number: [sys.executable, "-c", script, str(number)], 2, said.append, most_restarts=restarts
        )
        return (await made.run()).code

    return asyncio.run(keep()), said


def test_a_keeper_does_not_restart_what_ended_well_or_was_started_wrongly() -> None:
    assert kept("") == (0, [])
    assert kept("import sys; sys.exit(2 if sys.argv[1] == '2' else 0)") == (
        2, ["worker process 2 ended with exit code 2, and is not started again"]
    )  # fmt: skip


def test_a_keeper_gives_up_after_its_restarts_and_ends_in_error() -> None:
    code, said = kept("import sys; sys.exit(1 if sys.argv[1] == '1' else 0)", restarts=1)
    assert code == 1
    assert said == [
        "worker process 1 ended with exit code 1: starting another in 0.1 s",
        "worker process 1 ended with exit code 1, and is not started again",
    ]


def test_a_process_that_cannot_be_started_is_tried_again() -> None:
    said: list[str] = []

    async def keep() -> ProcessesReport:
        return await Keeper(lambda number: ["no-such-program"], 1, said.append, most_restarts=1).run()

    assert asyncio.run(keep()) == ProcessesReport(restarts=1, code=1)
    assert said[:2] == [
        "worker process 1 could not be started: [Errno 2] No such file or directory: 'no-such-program'",
        "worker process 1 ended with exit code 127: starting another in 0.1 s",
    ]


def test_each_option_of_a_worker_is_one_of_the_command_and_of_its_processes() -> None:
    options = {
        name for name, each in inspect.signature(Worker.__init__).parameters.items() if each.kind is each.KEYWORD_ONLY
    }
    assert options - OF_A_PROGRAM == set(WORKER_COMMAND_OPTIONS)
    assert options - OF_A_PROGRAM <= {option.name for option in worker.params}


# --- events


def test_events_are_followed_until_an_interrupt(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    process = start("events", "--follow", "--json")
    assert json.loads(process.line("enqueue"))["id"] == "a"
    shop.ok("enqueue", "send", "to=ann", "--id", "b")
    assert json.loads(process.line("enqueue"))["id"] == "b"
    process.signal(signal.SIGINT)
    assert process.end() == (0, "", "")


def test_a_reader_that_goes_away_is_no_error_to_be_told(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "send", "to=ann")
    process = start("events", "--follow")
    process.line("enqueue")
    assert process.process.stdout is not None
    process.process.stdout.close()
    shop.ok("enqueue", "send", "to=ann")
    process.process.wait(timeout=20)
    assert process.errors.read_text() == ""


# --- a terminal


def on_a_terminal(folder: Path, typed: bytes, *words: str) -> tuple[int, str]:
    """Return how a command ended on a terminal at which this was typed, and what stood there."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "holdfast", *words]
    process = subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed)
    told = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while chunk := os.read(ours, 4096):
            told += chunk
    os.close(ours)
    return process.wait(timeout=20), told.decode()


def test_people_are_asked_before_many_jobs_are_requeued(shop: Shop) -> None:
    for number in range(2):
        shop.ok("enqueue", "boom", "--id", f"f{number}")
    shop.work()
    code, told = on_a_terminal(shop.folder, b"n\n", "requeue", "--queue", "mail")
    assert code == 1
    assert "Requeue 2 jobs? [y/N]" in told
    assert "holdfast: nothing was requeued" in told
    code, told = on_a_terminal(shop.folder, b"y\n", "requeue", "--queue", "mail")
    assert (code, "requeued 2 jobs" in told) == (0, True)


def test_a_terminal_has_colours(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shop.ok("enqueue", "send", "to=ann")
    code, told = on_a_terminal(shop.folder, b"", "jobs")
    assert code == 0
    assert "\x1b[36mwaiting" in told


# --- what is said at Ctrl-C


def test_an_interrupt_tells_what_is_finished_and_a_second_hands_it_back(shop: Shop, start: Start) -> None:
    for name in ("one", "two"):
        shop.ok("enqueue", "until_told", "--id", name)
    process = start("worker", "--name", "w", "--grace", "0.5", "--log-level", "error")
    process.line("running")
    process.line("running")
    process.signal(signal.SIGINT)
    until(lambda: "finishing" in process.errors.read_text(), "the first is told")
    process.signal(signal.SIGINT)
    process.line("told")
    assert process.line("stopped") == "worker w stopped: 2 started, 2 released"
    code, _, err = process.end()
    assert code == 0
    assert err.splitlines() == [
        "finishing 2 jobs; press Ctrl-C again to hand them back",
        "handing back 2 jobs",
    ]
    assert [job["state"] for job in shop.json("jobs")["jobs"]] == ["waiting", "waiting"]


def test_an_idle_worker_and_a_sigterm_say_nothing_of_it(shop: Shop, start: Start) -> None:
    process = start("worker", "--log-level", "error")
    process.line("serves")
    process.signal(signal.SIGINT)
    assert process.end()[2] == ""
    shop.ok("enqueue", "until_told", "--id", "one")
    process = start("worker", "--log-level", "error", "--drain", "0")
    process.line("running")
    process.signal(signal.SIGTERM)
    assert "finishing" not in process.end()[2]
