"""The handlers of the process tests: a module, since processes import what they run.

The app is made anew for each test (`make_app`); the processes have one of their own, by this module's `app`, whose
store is that of HOLDFAST_TEST_URL. What handlers do is written to the file of HOLDFAST_TEST_LEDGER.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

from holdfast import Holdfast, Job, Permanent, Retry, Snooze, current_job

SOON = Retry(initial=0.01)
app = Holdfast(os.environ.get("HOLDFAST_TEST_URL", "memory://process"))
opened: list[str] = []
EXECUTORS: tuple[Literal["inline", "thread", "process"], ...] = ("inline", "thread", "process")


def note(what: str, id: str = "-") -> None:
    """The ledger has one line more, whole, whoever else writes."""
    file = os.open(os.environ["HOLDFAST_TEST_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{what} {id} {os.getpid()}\n".encode())
    finally:
        os.close(file)


@app.resource
async def connection() -> AsyncIterator[str]:
    """Opened once in each process."""
    note("open")
    yield f"connection of {os.getpid()}"
    note("close")


@app.resource
def model() -> Iterator[int]:
    """The same, with no loop."""
    logging.getLogger("model").warning("the model is loaded")
    yield 42


@app.task(executor="process", retry=SOON)
def add(a: int, b: int) -> int:
    return a + b


@app.task(executor="process", retry=SOON)
async def where(job: Job) -> dict[str, object]:
    """Everything that a handler may ask of its job."""
    assert current_job() is job
    await job.progress(0.5, "half")
    await job.save({"seen": job.attempt})
    return {
        "pid": os.getpid(), "id": job.id, "attempt": job.attempt, "headers": job.headers, "key": job.key,
        "resource": connection(), "model": model(), "context": job.context,
    }  # fmt: skip


@app.task(executor="process", retry=SOON)
def where_in_thread(job: Job) -> dict[str, object]:
    app.sync(job.progress(0.25, "quarter"))
    job.keep_result(7200)
    return {"pid": os.getpid(), "resource": connection()}


@app.task(executor="process", retry=SOON)
def sees(name: str) -> str | None:
    return os.environ.get(name)


@app.task(executor="process", retry=SOON)
async def enqueues(number: int) -> str:
    handle = await add.options(job_id=f"child-{number}").enqueue(number, 1)
    return handle.id


@app.task(executor="process", retry=SOON)
async def doubles(job: Job, number: int) -> Any:
    """Go on with another task of the chain."""
    return job.continue_with(add, number, number)


@app.task(executor="process", retry=SOON)
def gathers(job: Job) -> list[int]:
    return [blocker.result for blocker in app.sync(job.blockers())]


@app.task(executor="process", retry=SOON)
def ends(job: Job, how: str) -> int:
    """End in every way that a handler can."""
    if job.attempt > 1 and how != "raise for ever":
        assert job.last_error is None or job.last_error.message
        return job.attempt
    if how.startswith("raise"):
        raise ValueError("no good")
    if how == "permanent":
        raise Permanent("never")
    if how == "snooze":
        raise Snooze(after=0.01)
    if how == "unencodable":
        return {1, 2}  # type: ignore[return-value]
    if how == "log":
        logging.getLogger("shop").warning("the shop is closed")
    return job.attempt


@app.task(executor="process", retry=SOON)
async def completes(job: Job) -> None:
    async with job.complete():
        pass


@app.task(executor="process", timeout=0.3, retry=Retry(initial=0.01, timeouts=2))
def hangs(job: Job, how: str, pidfile: str) -> str:
    """Never returns, in a way that is hard to stop."""
    note("start", job.id)
    if how == "ignores":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        ctypes.CDLL(None).signal(signal.SIGTERM, 1)
    if how == "leaks":
        script = (
            "import os, signal; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); signal.pause()"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            Path(pidfile).write_text(child.stdout.readline())
            threading.Event().wait()
    if how == "spins":
        sum(range(10**12))
    threading.Event().wait()
    return "never"


@app.task(executor="process", timeout=0.2, retry=Retry(initial=0.01, timeouts=1))
async def waits() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        note("cleaned")


@app.task(queue="half", executor="process", size=50, retry=SOON)
async def holds(job: Job, gate: str) -> int:
    """Runs until the gate is open, or it should stop."""
    note("start", job.id)
    passing, fifo = asyncio.Event(), os.open(gate, os.O_RDONLY | os.O_NONBLOCK)
    asyncio.get_running_loop().add_reader(fifo, passing.set)
    waiting = [asyncio.ensure_future(each) for each in (passing.wait(), job.signal.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    asyncio.get_running_loop().remove_reader(fifo)
    os.close(fifo)
    job.signal.check()
    note("end", job.id)
    return os.getpid()


@app.task(queue="half", executor="process", size=50, retry=SOON)
def brief(job: Job, gate: str) -> None:
    """Takes one of the bytes that come through the gate."""
    with open(gate, "rb", buffering=0) as fifo:
        fifo.read(1)
    note("brief", job.id)


@app.task(queue="half", executor="process", size=50, timeout=0.3, retry=Retry(timeouts=1))
def late(job: Job) -> None:
    note("late", job.id)
    threading.Event().wait()


@app.task(executor="process", retry=SOON)
def dies(job: Job, how: str) -> int:
    note("start", job.id)
    if how == "once" and job.attempt > 1:
        return job.attempt
    if how.startswith("exit"):
        os._exit(int(how.removeprefix("exit ")))
    if how == "mute":
        os.close(int(sys.argv[1]))
        threading.Event().wait()
    os.kill(os.getpid(), signal.SIGSEGV)
    threading.Event().wait()  # as the signal may take a moment
    return 0


@app.task(executor="process", retry=SOON)
def grows(megabytes: int) -> int:
    opened.append("x" * (megabytes << 20))
    return os.getpid()


def between_transactions() -> contextlib.AbstractContextManager[object]:
    """A block in which this process has no transaction of SQLite's open, which would stop every other process too."""
    database = getattr(app.store, "database", None)
    return database.writer._on.using if database is not None else contextlib.nullcontext()


def hold_the_lock(job: Job, gate: str) -> int:
    """In its first attempt, waits in native code that does not let go of the interpreter lock."""
    note("start", job.id)
    if job.attempt == 1:
        fifo = os.open(gate, os.O_RDONLY)
        with between_transactions():
            ctypes.PyDLL(None).read(fifo, ctypes.create_string_buffer(1), 1)
        os.close(fifo)
    note("end", job.id)
    return job.attempt


holds_the_lock = {
    executor: app.task(name=f"{executor}_holds_the_lock", queue=executor, executor=executor, retry=SOON)(hold_the_lock)
    for executor in EXECUTORS
}


holds_the_lock_in_company = app.task(
    name="holds_the_lock_in_company", queue="half", executor="process", size=50, timeout=1.0, retry=Retry(timeouts=1)
)(hold_the_lock)


def fail_twice(job: Job) -> list[str]:
    if job.attempt < 3:
        raise LookupError(f"attempt {job.attempt}")
    return ["found"]


fails_twice = {
    executor: app.task(name=f"{executor}_fails_twice", queue=f"{executor}-twice", executor=executor, retry=SOON)(
        fail_twice
    )
    for executor in EXECUTORS
}


def await_the_end(job: Job) -> str:
    """In its first attempt, waits until it is told to stop."""
    if job.attempt == 1:
        note("waits", job.id)
        job.signal.wait_in_thread(60)
    return "done"


async def await_the_end_inline(job: Job) -> str:
    if job.attempt == 1:
        note("waits", job.id)
        await asyncio.Event().wait()
    return "done"


awaits_the_end = {
    executor: app.task(name=f"{executor}_awaits", queue="ends", executor=executor, retry=SOON)(
        await_the_end_inline if executor == "inline" else await_the_end
    )
    for executor in EXECUTORS
}


async def plain(payload: dict[str, int]) -> int:
    return payload["a"] + 1


@app.task(queue="half", executor="process", size=50, timeout=1.5, retry=Retry(timeouts=1))
async def blocks(job: Job) -> None:
    """Holds up the loop of its process for good."""
    note("blocks", job.id)
    threading.Event().wait()


@app.task(queue="half", executor="process", size=50, timeout=1.0, retry=Retry(timeouts=1))
async def innocent(job: Job) -> int:
    """Is done when the loop lets it: at once, in any attempt but the first."""
    note("innocent", job.id)
    if job.attempt == 1:
        await asyncio.sleep(0.1)
    return job.attempt


async def block_the_loop() -> None:
    threading.Event().wait()


@app.task(queue="half", executor="process", size=50, timeout=2.0, retry=Retry(timeouts=1))
async def is_quick(job: Job) -> int:
    """Needs half of its time, if the loop lets it; in another attempt nothing."""
    note("quick", job.id)
    if job.attempt == 1:
        await asyncio.sleep(1.0)
    return job.attempt


@app.task(queue="half", executor="process", size=50, timeout=4.0, retry=Retry(timeouts=1))
async def blocks_elsewhere(job: Job) -> None:
    """Holds up the loop of its process by a task of its own, so that nobody may know whose it is."""
    note("blocks", job.id)
    await asyncio.create_task(block_the_loop())


@app.task(queue="half", executor="process", size=50, retry=SOON)
async def computes(job: Job) -> int:
    """Holds up the loop of its process in its first attempt, and has all the time that it wants."""
    note("computes", job.id)
    if job.attempt == 1:
        threading.Event().wait()
    return job.attempt


@app.task(queue="endless")
async def endless(number: int) -> None:
    """Do nothing, but for one in a hundred, which brings a hundred others."""
    if number == 0:
        await endless.enqueue_many(endless.args(each) for each in range(100))


@app.task(queue="beside", executor="process", size=25)
def beside(number: int) -> int:
    return number


FORGED = "fine\n2026-01-01 00:00:00 ERROR holdfast: forged\r\x1b[2J\x9b\u202e\u2028"


@app.task(executor="process", retry=Retry(failures=1))
def forges() -> None:
    """What it logs and raises would be lines of others, and steer a terminal."""
    logging.getLogger("strange\nname").warning(FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("shop").exception("it went wrong")


def _started() -> int:
    return Path(os.environ["HOLDFAST_TEST_LEDGER"]).read_text().count("start")


def _touch(flag: str) -> None:
    Path(flag).touch()


@app.task(queue="shared", executor="process", size=10, retry=SOON)
async def shares(job: Job, flag: str, poison: bool) -> int:
    """Ten at a time share a process. The poison kills it, at first when all of them are there."""
    note("start", job.id)
    while poison and job.attempt == 1 and _started() < 10:  # noqa: ASYNC110 (other handlers write it down in a file)
        await asyncio.sleep(0.005)
    if poison:
        _touch(flag)
        os._exit(3)
    while not os.path.exists(flag):  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.005)
    return job.attempt


async def heed(job: Job) -> str:
    """In its first attempt it waits until it is told to stop, writes down why, and stops."""
    if job.attempt == 1:
        note("start", job.id)
        note(await job.signal.wait(), job.id)
        job.signal.check()
    return "done"


def heed_in_thread(job: Job) -> str:
    """The same with no loop."""
    if job.attempt == 1:
        note("start", job.id)
        job.signal.wait_in_thread(60)
        note(str(job.signal.reason), job.id)
        job.signal.check()
    return "done"


heeds = {
    "inline": app.task(name="inline_heeds", queue="inline-heeds")(heed),
    "thread": app.task(name="thread_heeds", queue="thread-heeds", executor="thread")(heed_in_thread),
    "process": app.task(name="process_heeds", queue="process-heeds", executor="process")(heed),
}


async def outlast(job: Job) -> int:
    """It is told to stop, and completes all the same."""
    note("start", job.id)
    note(await job.signal.wait(), job.id)
    return job.attempt


outlasts = app.task(name="outlasts", queue="outlasts")(outlast)
