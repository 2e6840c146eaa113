"""The app under torture: tasks of every kind, each of which writes to the ledger what it did.

It is imported by workers, by the processes of their pools, by producers and by callers; the environment says which
torture (TORTURE) and by which way to the store (TORTURE_URL).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import Continued, Every, Job, Retention, Retry

from . import ledger
from .board import Board, app_at
from .plan import AT_ONCE, PER_KEY, load

TICK = 0.05
"""Seconds between two lines of a handler at work."""

plan = load()
board = Board(plan.path / "board")
ledger.open_ledger(plan.path, os.environ["TORTURE_ROLE"])
PATIENT = Retry(failures=5, stalls=None, timeouts=None, releases=None, initial=0.1, maximum=1.0)
WORKER = os.environ.get("TORTURE_WORKER", "0")


class Trouble(Exception):
    """What handlers of this app raise on purpose, and nothing else does."""


app = app_at(os.environ["TORTURE_URL"], board, retry=PATIENT, result_ttl=plan.keep)
QUEUES = (
    "plain",
    "work",
    "rescue",
    "keyed",
    "pool",
    "chain_a",
    "chain_b",
    "join",
    "once",
    "latest",
    "drop",
    "tick",
    "ask",
)
KEPT = Retention(completed=plan.keep, failed=max(plan.keep, 7 * 86400))
for name in QUEUES:
    app.queue(name, retention=KEPT)
app.queue("keyed", concurrency=AT_ONCE, key_concurrency=PER_KEY)


def line(letter: str, job: Job, word: object = "-") -> None:
    """The ledger has a line of this attempt."""
    ledger.note(letter, job.queue, job.id, job.run, job.attempt, WORKER, word)


@contextmanager
def attempt(job: Job, word: object = "-") -> Iterator[None]:
    """The attempt's begin and end are in the ledger."""
    line("B", job, word)
    try:
        yield
    except BaseException as error:
        line("E", job, type(error).__name__)
        raise
    line("E", job, "ok")


async def work_for(job: Job, seconds: float) -> None:
    """The handler works for so long, and says so all the while."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(TICK, left))
        line("T", job)


def work_in_place(job: Job, seconds: float) -> None:
    """The same for a handler that is no coroutine; one that should stop does."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(TICK, left))
        line("T", job)
        job.signal.check()


# --- plain work, and what goes wrong


@app.task(queue="plain")
async def plain(job: Job, n: int) -> int:
    line("P", job)
    return n + 1


@app.task(queue="work")
async def slow(job: Job, seconds: float) -> None:
    with attempt(job):
        await work_for(job, seconds)


@app.task(queue="work")
async def flaky(job: Job, bad: int) -> int:
    with attempt(job, bad):
        if job.counters.failures < bad:
            raise Trouble(f"{job.counters.failures} of {bad}")
    return bad


@app.task(queue="rescue")
async def rescue(job: Job) -> None:
    assert job.failed is not None
    line("P", job, job.failed.id)


@app.task(
    queue="work", on_failure=rescue, retry=Retry(failures=2, stalls=None, timeouts=None, releases=None, initial=0.1)
)
async def doomed(job: Job) -> None:
    with attempt(job):
        raise Trouble("always")


@app.task(queue="work", timeout=0.5)
async def late(job: Job) -> None:
    with attempt(job):
        await work_for(job, 0.02 if job.counters.timeouts else 60)


@app.task(queue="work", executor="thread")
def threaded(job: Job, seconds: float) -> None:
    with attempt(job):
        work_in_place(job, seconds)


@app.task(queue="pool", executor="process", size=25)
def pooled(job: Job, seconds: float) -> None:
    with attempt(job):
        work_in_place(job, seconds)


@app.task(queue="pool", executor="process", size=50, timeout=1.0)
def pooled_late(job: Job) -> None:
    with attempt(job):
        if job.counters.timeouts == 0:
            time.sleep(30)  # deaf to its signal: its process is killed
        line("T", job)


@app.task(queue="keyed")
async def keyed(job: Job, seconds: float) -> None:
    with attempt(job, job.key):
        await work_for(job, seconds)


# --- jobs that know of each other


@app.task(queue="chain_a")
async def third(job: Job, root: str) -> str:
    line("P", job, root)
    return root


@app.task(queue="chain_b")
async def second(job: Job, root: str) -> Continued[str]:
    line("P", job, root)
    return job.continue_with(third, root)


@app.task(queue="chain_a")
async def first(job: Job, root: str) -> Continued[str]:
    line("P", job, root)
    return job.continue_with(second, root)


@app.task(queue="join")
async def join(job: Job, waited: list[str]) -> int:
    line("P", job, ",".join(waited))
    return len(await job.blockers())


@app.task(queue="once")
async def once(job: Job, key: str) -> None:
    with attempt(job, key):
        await work_for(job, 0.1)


@app.task(queue="latest")
async def latest(job: Job, number: int) -> int:
    with attempt(job, number):
        await work_for(job, 0.05)
    return number


@app.task(queue="drop")
async def drop(job: Job, seconds: float) -> None:
    with attempt(job):
        await work_for(job, seconds)


@app.task(queue="tick")
async def tick(job: Job) -> None:
    line("P", job, job.tick.isoformat() if job.tick else "-")


app.schedule("pulse", Every(0.5), tick.args(), catch_up="all", limit=100)


@app.task(queue="ask")
async def ask(job: Job, n: int) -> int:
    line("P", job)
    return n * 3
