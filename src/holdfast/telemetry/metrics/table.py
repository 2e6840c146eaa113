"""Every metric that there is, in one table: its name, kind, unit, labels and what it means.

Names are OpenTelemetry's. Prometheus's follow from them by OpenTelemetry's own rules, so that a dashboard works
whichever way the numbers came.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]
Scope = Literal["process", "store"]
_UNITS = {"s": "seconds", "By": "bytes"}

TIMES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the buckets of waits and runs, in seconds."""
CALLS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Those of calls to the store."""
BATCHES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
"""Those of how many jobs a turn settles and claims."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric: what it is called, and what its numbers mean."""

    name: str
    kind: Kind
    unit: str = ""
    """In OpenTelemetry's form (UCUM): `s`, `{job}`, …"""
    labels: tuple[str, ...] = ()
    help: str
    bounds: tuple[float, ...] = ()
    scope: Scope = "process"
    """Counted in each process, or measured once for a store."""

    @property
    def family(self) -> str:
        """The name as Prometheus spells it, without the `_total` of a counter."""
        plain, unit = self.name.replace(".", "_"), _UNITS.get(self.unit, "")
        return f"{plain}_{unit}" if unit and not plain.endswith(unit) else plain

    @property
    def exposed(self) -> str:
        """The name that queries of Prometheus use; of a histogram, that before `_bucket`, `_sum` and `_count`."""
        return f"{self.family}_total" if self.kind == "counter" else self.family


_JOB = ("queue", "task")


def _jobs(word: str, help: str, *labels: str) -> Metric:
    return Metric(name=f"holdfast.jobs.{word}", kind="counter", unit="{job}", labels=(*_JOB, *labels), help=help)


ENQUEUED = _jobs("enqueued", "Runs that this process has begun: by enqueue, schedule or continuation.")
CONFLICTS = _jobs("conflicts", "Enqueues that met a job which was there, by what became of them.", "outcome")
STARTED = _jobs("started", "Attempts whose handler was started.")
COMPLETED = _jobs("completed", "Jobs that were completed.")
FAILED = _jobs("failed", "Jobs that failed for good, by cause.", "cause")
RETRIED = _jobs("retried", "Attempts that failed and are tried again, by cause.", "cause")
STALLED = _jobs("stalled", "Attempts whose worker or process vanished, as this worker found out.")
CANCELLED = _jobs("cancelled", "Attempts that ended as cancelled.")
RELEASED = _jobs("released", "Jobs that were handed back unfinished, by cause.", "cause")
SNOOZED = _jobs("snoozed", "Attempts that asked to run later.")
LOST = _jobs("lost", "Attempts whose end did not count, because the lease was gone.")
EXPIRED = Metric(
    name="holdfast.jobs.expired", kind="counter", unit="{job}", labels=("queue",),
    help="Finished runs that this worker removed at the end of their retention.",
)  # fmt: skip
WAIT = Metric(
    name="holdfast.job.wait", kind="histogram", unit="s", labels=_JOB, bounds=TIMES,
    help="From when an attempt was due to its claim.",
)  # fmt: skip
LAG = Metric(
    name="holdfast.job.schedule_lag", kind="histogram", unit="s", labels=_JOB, bounds=TIMES,
    help="From schedule to start, of attempts that had a time of their own: a delay, a schedule, a retry or a snooze.",
)  # fmt: skip
RUN = Metric(
    name="holdfast.job.run", kind="histogram", unit="s", labels=_JOB, bounds=TIMES,
    help="From the start of a handler to its end, however it ended.",
)  # fmt: skip

WORKER_INFO = Metric(
    name="holdfast.worker.info", kind="gauge", labels=("worker", "version", "store"),
    help="1 for each worker that runs in this process.",
)  # fmt: skip
SLOTS = Metric(
    name="holdfast.worker.slots", kind="gauge", unit="{slot}", labels=("worker", "state"),
    help="Slots of a worker, used and free.",
)  # fmt: skip
RUNNING = Metric(
    name="holdfast.worker.running", kind="gauge", unit="{job}", labels=("worker",),
    help="Handlers that run now, in slots and in processes.",
)  # fmt: skip
EVENTS = Metric(
    name="holdfast.worker.events", kind="counter", unit="{event}", labels=("event",),
    help="What happened in the life of workers: lease_lost, store_lost, worker_error, wakeup_degraded, …",
)  # fmt: skip
PROCESSES = Metric(
    name="holdfast.executor.processes", kind="gauge", unit="{process}", labels=("worker",),
    help="Processes that run handlers, those that are about to end included.",
)  # fmt: skip
RECYCLED = Metric(
    name="holdfast.executor.recycles", kind="counter", unit="{process}", labels=("cause",),
    help="Processes that were replaced in order, by cause: jobs, memory, module.",
)  # fmt: skip
KILLED = Metric(
    name="holdfast.executor.kills", kind="counter", unit="{process}", labels=("cause",),
    help="Processes that were ended with jobs in them, by cause: timeout, held_up, cancelled.",
)  # fmt: skip
DIED = Metric(
    name="holdfast.executor.deaths", kind="counter", unit="{process}",
    help="Processes that ended unasked: killed from outside, out of memory, crashed.",
)  # fmt: skip
CALL = Metric(
    name="holdfast.store.call.duration", kind="histogram", unit="s", labels=("call",), bounds=CALLS,
    help="Calls to the store, by name: settle_and_claim settles what has ended and claims what is next.",
)  # fmt: skip
ERRORS = Metric(
    name="holdfast.store.errors", kind="counter", unit="{error}", labels=("call",),
    help="Calls to the store that failed.",
)  # fmt: skip
CLAIMED_AT_ONCE = Metric(
    name="holdfast.turn.claimed", kind="histogram", unit="{job}", bounds=BATCHES, help="Jobs that a turn claimed.",
)  # fmt: skip
SETTLED_AT_ONCE = Metric(
    name="holdfast.turn.settled", kind="histogram", unit="{job}", bounds=BATCHES, help="Attempts that a turn settled.",
)  # fmt: skip


def _store(name: str, unit: str, help: str, *labels: str) -> Metric:
    return Metric(name=f"holdfast.{name}", kind="gauge", unit=unit, labels=labels, help=help, scope="store")


STORE_UP = _store("store.up", "", "1 when the store answered when it was last measured, else 0.")
STORE_MEASURED = _store("store.measure.duration", "s", "How long it took to measure the store.")
STORE_WORKERS = _store("store.workers", "{worker}", "Workers that were heard within their lease.")
DEPTH = _store("queue.jobs", "{job}", "Jobs of a queue in each state.", "queue", "state")
OLDEST = _store(
    "queue.oldest_ready.age", "s", "How long the job that waits longest could have run; 0 for none.", "queue"
)
OVERDUE = _store("queue.scheduled.overdue", "s", "How late the most overdue scheduled job is.", "queue")
KEYS_AT_LIMIT = _store(
    "queue.keys_at_limit", "{key}", "Concurrency keys that have as many jobs running as may.", "queue"
)
PAUSED = _store("queue.paused", "", "1 for a queue that is paused.", "queue")
QUEUE_WORKERS = _store("queue.workers", "{worker}", "Workers that serve a queue.", "queue")
LOG_EVENTS = _store("log.events", "{event}", "Events in the log.")
LOG_BYTES = _store("log.size", "By", "The room that the log takes, where the store knows.")
READER_LAG = _store(
    "log.reader.lag", "{event}", "Events that a named reader, such as the lake, has not read.", "reader"
)
READER_DELAY = _store(
    "log.reader.delay",
    "s",
    "How long ago the first event came that a named reader, such as the lake, has not read.",
    "reader",
)

PROCESS_TABLE = (
    ENQUEUED, CONFLICTS, STARTED, COMPLETED, FAILED, RETRIED, STALLED, CANCELLED, RELEASED, SNOOZED, LOST, EXPIRED,
    WAIT, LAG, RUN, WORKER_INFO, SLOTS, RUNNING, EVENTS, PROCESSES, RECYCLED, KILLED, DIED, CALL, ERRORS,
    CLAIMED_AT_ONCE, SETTLED_AT_ONCE,
)  # fmt: skip
STORE_TABLE = (
    STORE_UP, STORE_MEASURED, STORE_WORKERS, DEPTH, OLDEST, OVERDUE, KEYS_AT_LIMIT, PAUSED, QUEUE_WORKERS, LOG_EVENTS,
    LOG_BYTES, READER_LAG, READER_DELAY,
)  # fmt: skip
TABLE = (*PROCESS_TABLE, *STORE_TABLE)
