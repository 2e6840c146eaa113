"""A fleet: workers as long-running Spark tasks. Each is a Spark job of its own, so that one that dies is alone.

The driver stops them through the store, which driver and executors share: a record says whether to run on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from uuid import uuid4

import msgspec
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from ...app.loader import load_app
from ...core.duration import Duration, to_ms
from ...errors import ConfigError, StoreError
from ...store import Store
from ...telemetry.line_handler import FormatName
from ...worker import Report
from ..app_code import absolute_path, send_app
from ..errors import first_line
from ..loop_thread import LoopThread
from ..records import delete_record, write_record
from ..session.kept_cores import keep_cores
from ..session.master import is_local, refuse_connect
from ..session.session import session as any_session
from ..store_url import refuse_remote
from .worker import FleetSettings, FleetSignal, TaskReply, listen_seconds, run_worker

log = logging.getLogger("holdfast")
POLL = 0.5
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
KEEP_MS = 6 * 3600 * 1000
"""How long the record of a fleet stays after its driver was killed."""
PATIENCE = 20.0
"""Seconds that workers have, beyond their drain, before Spark is told to kill them."""


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
    """Made by `fleet(...)`. As a context manager it stops gracefully at the end of the block."""

    def __init__(self, spark: SparkSession, loop: LoopThread, settings: FleetSettings, workers: int) -> None:
        self._context = spark.sparkContext
        self._loop = loop
        self._settings = settings
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._reports: list[WorkerReport] = []
        self._lock = threading.Lock()
        self.name = settings.fleet
        self.queues = settings.queues
        self._signal(go=True)
        threading.Thread(target=self._renew_record, name=f"holdfast-{settings.fleet}", daemon=True).start()
        self._threads = [
            InheritableThread(
                target=self._keep, args=(number,), name=f"holdfast-{settings.fleet}-{number}", daemon=True
            )
            for number in range(1, workers + 1)
        ]
        for thread in self._threads:
            thread.start()
        keep_cores(self._context, self._threads)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether one of its workers has not ended."""
        return any(thread.is_alive() for thread in self._threads)

    def drain(self) -> list[WorkerReport]:
        """Wait until the queues are empty and nothing runs, stop, and return what each worker did."""
        quiet = 0
        while quiet < 2 and self.running and not self._stopping.is_set():
            quiet = quiet + 1 if self._loop.run(_is_quiet(self._loop.store, self._settings.queues)) else 0
            self._stopping.wait(POLL)
        return self.stop()

    def wait(self) -> list[WorkerReport]:
        """Wait until the fleet was stopped elsewhere, and return what each worker did."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(POLL)  # in steps, so that Ctrl-C is handled
        return self.stop()

    def ask_to_stop(self) -> None:
        """Tell the workers to drain and end. May be called again, from any thread."""
        with self._lock:
            if not self._stopping.is_set():
                self._signal(go=False)  # if that fails, no worker was asked: the next call tries again
                self._stopping.set()

    def hurry(self) -> None:
        """Tell the workers to end without waiting for their handlers, and to release their jobs."""
        self.ask_to_stop()
        self._signal(go=False, hurry=True)

    def _signal(self, *, go: bool, hurry: bool = False) -> None:
        record = write_record(self._loop.store, self._settings.record, FleetSignal(go, hurry), keep_ms=KEEP_MS)
        self._loop.run(record)

    def _renew_record(self) -> None:
        """Renew the record, which expires when the driver was killed, for as long as the driver lives."""
        while not self._stopping.wait(KEEP_MS / 6000):
            with self._lock:
                self._renew()

    def _renew(self) -> None:
        try:
            self._signal(go=not self._stopping.is_set())
        except StoreError as error:
            log.warning("store_away: the record of fleet %s was not renewed, next try in an hour: %s", self.name, error)

    def stop(self) -> list[WorkerReport]:
        """Stop the fleet; wait until its jobs are finished or released; return what each worker did."""
        if not self._loop.closed:
            self.ask_to_stop()
            self._join()
            self._loop.run(delete_record(self._loop.store, self._settings.record))
            self._loop.__exit__()
        if self._failure is not None:
            raise self._failure
        return sorted(self._reports, key=lambda report: report.name)

    def _join(self) -> None:
        deadline = time.monotonic() + self._settings.drain + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self.running:
            log.warning(
                "fleet_killed: workers of %s do not end, and are killed; their jobs are reaped later", self.name
            )
            self._context.cancelJobGroup(self.name)

    def _keep(self, number: int) -> None:
        """Run one worker, and another in its place when it dies, until the fleet is told to stop."""
        restarts, pause = 0, FIRST_PAUSE
        self._context.setJobGroup(self.name, f"holdfast worker {number} of {self.name}", interruptOnCancel=True)
        while True:
            started = time.monotonic()
            try:
                reply = self._run_worker(number)
            except Exception as error:
                reply = None
                if not self._stopping.is_set():
                    log.warning(
                        "fleet_worker_died: worker %d of %s, starting another: %s",
                        number,
                        self.name,
                        first_line(error),
                    )
            if reply is not None:
                self._note_end(reply, restarts)
                if self._failure is not None:
                    self.ask_to_stop()
                return
            pause = FIRST_PAUSE if time.monotonic() - started > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            restarts += 1
            if self._stopping.wait(pause) or self._context._jsc is None:  # Spark itself is gone
                return

    def _run_worker(self, number: int) -> TaskReply:
        settings = self._settings
        tasks = self._context.parallelize([number], 1).mapPartitions(lambda each: run_worker(settings, next(each)))
        return msgspec.json.decode(tasks.collect()[0], type=TaskReply)

    def _note_end(self, reply: TaskReply, restarts: int) -> None:
        with self._lock:
            if reply.did is None:
                self._failure = self._failure or ConfigError(reply.error)
            else:
                self._reports.append(
                    WorkerReport(name=reply.name, host=reply.host, did=reply.did, restarts=restarts)
                )  # fmt: skip


def fleet(
    app: str,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    queues: Sequence[str] | None = None,
    workers: int = 1,
    slots: int = 10,
    lease: Duration | None = None,
    drain: Duration = 30.0,
    name: str | None = None,
    log_jobs: bool = True,
    log_level: str | None = None,
    log_format: FormatName = "human",
) -> Fleet:
    """Return a fleet of workers of `app="module:app"` that runs on Spark; `stop`, `drain` or `with` end it.

    Each worker takes one core of the cluster while it runs. `drain` is the time that handlers have at a stop. With
    `log_level`, workers log to the stderr of their executors.
    """
    if type(workers) is not int or workers < 1:
        raise ConfigError(f"workers={workers!r}: a whole number from 1")
    refuse_connect(spark)
    found = load_app(app)
    worker = found.worker(queues, slots=slots, lease=lease, drain=drain, log_jobs=log_jobs)
    with ExitStack() as opened:
        loop = opened.enter_context(LoopThread(found.store.url))  # a store that is away is noticed before Spark starts
        session = spark or any_session(master)
        refuse_remote(found.store.url, session)
        _warn_of_too_many(workers, session.sparkContext.defaultParallelism)
        send_app(session, app)
        settings = FleetSettings(
            app=absolute_path(app), fleet=name or f"fleet-{uuid4().hex[:8]}", queues=worker.queues, slots=slots,
            lease=None if lease is None else to_ms(lease, "lease") / 1000, drain=to_ms(drain, "drain") / 1000,
            folder=os.getcwd(), local=is_local(session.sparkContext.master), listen=listen_seconds(workers),
            log_jobs=log_jobs, log_level=log_level, log_format=log_format,
        )  # fmt: skip
        made = Fleet(session, loop, settings, workers)
        opened.pop_all()  # the fleet closes the loop itself, when it has ended
        return made


def _warn_of_too_many(workers: int, cores: int) -> None:
    if workers > cores:
        log.warning(
            "fleet_too_large: workers=%d: the cluster runs %d tasks at once, so some will have to wait", workers, cores
        )


async def _is_quiet(store: Store, queues: Sequence[str]) -> bool:
    """Return whether no job is active or waiting, also none that a dead worker still holds."""
    known = [queue for queue in await store.queues() if queue.name in queues and not queue.settings.paused]
    busy = sum(queue.counts.get("active", 0) + queue.counts.get("waiting", 0) for queue in known)
    return not busy and not await store.pending(queues)
