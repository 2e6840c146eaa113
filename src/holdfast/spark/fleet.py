"""A fleet: workers as long-running Spark tasks, each a Spark job of its own: one that dies takes no other along.

They are told to stop through the store, which is what driver and executors share: a record says whether to go on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import msgspec
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from ..core.duration import Duration, to_ms
from ..errors import ConfigError, StoreError
from ..find import load_app
from ..store import Store
from ..worker import Report
from .crew import Post, serve
from .ledger import note, strike
from .line import Line
from .place import absolute_target, ship
from .session import is_local, refuse_remote
from .session import session as any_session

log = logging.getLogger("holdfast")
POLL = 0.5
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
KEEP_MS = 6 * 3600 * 1000
"""For how long a fleet whose driver was killed is remembered."""
PATIENCE = 20.0
"""How long, beyond their drain, workers have to end before Spark is told to kill them."""


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker of a fleet did, where it ran, and how often it had to be started again."""

    name: str
    host: str
    did: Report
    restarts: int = 0

    def __str__(self) -> str:
        counts = msgspec.to_builtins(self.did)
        done = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no job came"
        again = f", started again {self.restarts} times" if self.restarts else ""
        return f"worker {self.name} on {self.host}: {done}{again}"


class Fleet:
    """Made by `fleet(...)`. As a context manager it stops, gracefully, at the end of the block."""

    def __init__(self, spark: SparkSession, line: Line, post: Post, workers: int) -> None:
        self._context = spark.sparkContext
        self._line = line
        self._post = post
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._reports: list[WorkerReport] = []
        self._lock = threading.Lock()
        self.name = post.fleet
        self.queues = post.queues
        self._say(go=True)
        threading.Thread(target=self._go_on, name=f"holdfast-{post.fleet}", daemon=True).start()
        self._threads = [
            InheritableThread(target=self._keep, args=(number,), name=f"holdfast-{post.fleet}-{number}", daemon=True)
            for number in range(1, workers + 1)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """True while one of its workers has not ended."""
        return any(thread.is_alive() for thread in self._threads)

    def drain(self) -> list[WorkerReport]:
        """The queues are empty and nothing runs, and the fleet has ended; return what each worker did."""
        quiet = 0
        while quiet < 2 and self.running and not self._stopping.is_set():
            quiet = quiet + 1 if self._line(_is_quiet(self._line.store, self._post.queues)) else 0
            self._stopping.wait(POLL)
        return self.stop()

    def wait(self) -> list[WorkerReport]:
        """The fleet has ended, because `stop` was called elsewhere; return what each worker did."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(POLL)  # in steps, so that Ctrl-C is heard
        return self.stop()

    def ask_to_stop(self) -> None:
        """Workers drain and end. May be called again, from any thread."""
        with self._lock:
            if not self._stopping.is_set():
                self._say(go=False)  # if that fails, nobody was asked: the next call tries again
                self._stopping.set()

    def hurry(self) -> None:
        """Workers end without waiting for their handlers, whose jobs are handed back."""
        self.ask_to_stop()
        self._say(go=False, hurry=True)

    def _say(self, **told: bool) -> None:
        self._line(note(self._line.store, self._post.record, told, keep_ms=KEEP_MS))

    def _go_on(self) -> None:
        """The record, which would go if the driver were killed, stays while it is not."""
        while not self._stopping.wait(KEEP_MS / 6000):
            with self._lock:
                self._renew()

    def _renew(self) -> None:
        try:
            self._say(go=not self._stopping.is_set())
        except StoreError as error:
            log.warning("fleet %s: its record could not be renewed, and will be in an hour: %s", self.name, error)

    def stop(self) -> list[WorkerReport]:
        """The fleet has ended, and what it held is finished or handed back; return what each worker did."""
        if not self._line.closed:
            self.ask_to_stop()
            self._join()
            self._line(strike(self._line.store, self._post.record))
            self._line.__exit__()
        if self._failure is not None:
            raise self._failure
        return sorted(self._reports, key=lambda report: report.name)

    def _join(self) -> None:
        deadline = time.monotonic() + self._post.drain + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self.running:
            log.warning("fleet %s: some workers do not end, and are killed; their jobs are reaped later", self.name)
            self._context.cancelJobGroup(self.name)

    def _keep(self, number: int) -> None:
        """One worker runs, and another in its place when it dies, until the fleet is told to stop."""
        restarts, pause = 0, FIRST_PAUSE
        self._context.setJobGroup(self.name, f"holdfast worker {number} of {self.name}", interruptOnCancel=True)
        while True:
            started = time.monotonic()
            try:
                told = self._one(number)
            except Exception as error:
                told = None
                if not self._stopping.is_set():
                    log.warning("fleet %s: worker %d died, starting another: %s", self.name, number, _first_line(error))
            if told is not None:
                self._ended(told, restarts)
                if self._failure is not None:
                    self.ask_to_stop()
                return
            pause = FIRST_PAUSE if time.monotonic() - started > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            restarts += 1
            if self._stopping.wait(pause) or self._context._jsc is None:  # Spark itself is gone
                return

    def _one(self, number: int) -> dict[str, Any]:
        post = self._post
        tasks = self._context.parallelize([number], 1).mapPartitions(lambda numbers: serve(post, next(numbers)))
        told: dict[str, Any] = tasks.collect()[0]
        return told

    def _ended(self, told: dict[str, Any], restarts: int) -> None:
        with self._lock:
            if "error" in told:
                self._failure = self._failure or ConfigError(told["error"])
            else:
                did = msgspec.convert(told["did"], Report)
                self._reports.append(
                    WorkerReport(name=told["name"], host=told["host"], did=did, restarts=restarts)
                )  # fmt: skip


def fleet(
    app: str,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    queues: Sequence[str] | None = None,
    workers: int = 1,
    slots: int = 10,
    lease: Duration = 15.0,
    drain: Duration = 30.0,
    name: str | None = None,
) -> Fleet:
    """Return a fleet of workers of `app="module:app"` that runs on Spark; `stop`, `drain` or `with` end it.

    Each worker takes one core of the cluster for as long as it runs. `drain` is the time that handlers have at a stop.
    """
    if type(workers) is not int or workers < 1:
        raise ConfigError(f"workers={workers!r}: a whole number from 1")
    found = load_app(app)
    worker = found.worker(queues, slots=slots, lease=lease, drain=drain)
    with ExitStack() as opened:
        line = opened.enter_context(Line(found.store.url))  # a store that is not there is told before Spark starts
        session = spark or any_session(master)
        refuse_remote(found.store.url, session)
        _warn_of_too_many(workers, session.sparkContext.defaultParallelism)
        ship(session, app)
        post = Post(
            app=absolute_target(app), fleet=name or f"fleet-{uuid4().hex[:8]}", queues=worker.queues, slots=slots,
            lease=to_ms(lease, "lease") / 1000, drain=to_ms(drain, "drain") / 1000,
            folder=os.getcwd(), local=is_local(session.sparkContext.master),
        )  # fmt: skip
        made = Fleet(session, line, post, workers)
        opened.pop_all()  # it closes the line itself, when it has ended
        return made


def _warn_of_too_many(workers: int, cores: int) -> None:
    if workers > cores:
        log.warning("workers=%d: the cluster runs %d tasks at once, so some will have to wait", workers, cores)


async def _is_quiet(store: Store, queues: Sequence[str]) -> bool:
    """True when nothing runs and nothing waits to run, those included that a dead worker still holds."""
    known = [queue for queue in await store.queues() if queue.name in queues and not queue.settings.paused]
    busy = sum(queue.counts.get("active", 0) + queue.counts.get("waiting", 0) for queue in known)
    return not busy and not await store.pending(queues)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]
