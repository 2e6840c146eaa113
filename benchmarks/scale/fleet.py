"""Worker processes and producer processes on one store, with the processor time that they and its server take."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import store as places
from benchmarks.app import SLOTS, run
from benchmarks.processor import of_session, of_tree, signal_session
from benchmarks.scale.app import COUNTS, SHAPE, URL, calls, counted, made

LOOK = 0.005
PATIENCE = 300.0


@dataclass(frozen=True)
class Cost:
    """What some processes did together."""

    what: str
    """A shape for worker processes, a way for producers."""
    processes: int
    jobs: int
    seconds: float
    own_seconds: float
    """Processor time of the processes."""
    server_seconds: float
    """And of the store's server."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    def each_us(self, seconds: float) -> float:
        """Microseconds for each job."""
        return seconds / self.jobs * 1e6


@contextmanager
def place(store: str, shape: str) -> Iterator[tuple[str, Path]]:
    """A server of its own; yield its URL and the folder in which processes count. The environment tells the app."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        tempfile.TemporaryDirectory(prefix="holdfast-bench-counts-") as counts,
        places.STORES[store](Path(folder)) as url,
    ):
        address = url if "://" in url else f"sqlite:///{url}"
        os.environ.update({URL: address, SHAPE: shape, COUNTS: counts})
        yield url, Path(counts)


def work(store: str, shape: str, processes: int, jobs: int) -> Cost:
    """All jobs wait and all processes are ready when the watch starts; it stops with the last handler."""
    with place(store, shape) as (url, counts):
        run(_fill(jobs))
        with _workers(processes) as fleet:
            _until(lambda: run(_alive()) == processes, "all worker processes are ready")
            _until(lambda: _stopped(fleet.pid, url), "all worker processes stand still")
            run(_resume())
            before, began = _spent(fleet.pid, url), time.perf_counter()
            signal_session(fleet.pid, signal.SIGCONT)
            _until(lambda: counted(counts) >= jobs, "all jobs are done")
            seconds = time.perf_counter() - began
            own, server = (after - start for after, start in zip(_spent(fleet.pid, url), before, strict=True))
    return Cost(shape, processes, jobs, seconds, own, server)


def produce(store: str, how: str, processes: int, jobs: int) -> Cost:
    """All producers are connected when the watch starts; it stops when the last of them is done."""
    share = jobs // processes
    with place(store, "one queue") as (url, _), ExitStack() as stack:
        run(_fill(1))  # the schema is there
        producers = [stack.enter_context(_producer(how, share, share * number)) for number in range(processes)]
        for each in producers:
            _hear(each, "ready")
        before, began = _all_spent(producers, url), time.perf_counter()
        for each in producers:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        for each in producers:
            _hear(each, "done")
        seconds = time.perf_counter() - began
        own, server = (after - start for after, start in zip(_all_spent(producers, url), before, strict=True))
    return Cost(how, processes, share * processes, seconds, own, server)


@contextmanager
def _workers(processes: int) -> Iterator[subprocess.Popen[bytes]]:
    words = ["worker", "benchmarks.scale.app:app", "--processes", str(processes), "--slots", str(SLOTS)]
    command = [sys.executable, "-m", "holdfast", *words, "--log-level", "error"]
    fleet = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield fleet
    finally:
        fleet.terminate()
        try:
            fleet.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            fleet.kill()
            fleet.wait()


@contextmanager
def _producer(how: str, jobs: int, first: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.scale.produce", how, str(jobs), str(first)]
    pipe = subprocess.PIPE
    producer = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    try:
        yield producer
    finally:
        producer.kill()
        producer.wait()


def _hear(producer: subprocess.Popen[str], word: str) -> None:
    assert producer.stdout is not None
    line = producer.stdout.readline()
    if not line or word not in json.loads(line):
        raise SystemExit(f"a producer ended before it was {word}; its last words are above")


async def _fill(jobs: int) -> None:
    """The jobs wait in queues that are paused."""
    app, tasks = made()
    async with app:
        for task in tasks:
            await app.queue(task.queue).pause()
        await app.enqueue_many(calls(tasks, jobs))


async def _resume() -> None:
    app, tasks = made()
    async with app:
        for task in tasks:
            await app.queue(task.queue).resume()


async def _alive() -> int:
    app, _ = made()
    async with app:
        return sum(worker.alive for worker in await app.workers())


def _stopped(session: int, url: str) -> bool:
    """Stop the processes, one of which is the worker and others its children; False: one has the lock of the file."""
    signal_session(session, signal.SIGSTOP)
    if "://" in url:
        return True
    try:
        with closing(sqlite3.connect(url, timeout=1, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        signal_session(session, signal.SIGCONT)
        return False
    return True


def _spent(session: int, url: str) -> tuple[float, float]:
    return of_session(session), of_tree(places.PIDS.get(url, 0))


def _all_spent(producers: Sequence[subprocess.Popen[str]], url: str) -> tuple[float, float]:
    return sum(of_session(each.pid) for each in producers), of_tree(places.PIDS.get(url, 0))


def _until(reached: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit(f"after {PATIENCE:g} s it is still not so that {what}")
        time.sleep(LOOK)
