"""The job log: a line for each attempt's end, and what else a worker tells of its life.

Where the only handler is the one that the command line has set up, the lines of a turn are made at once, and under
load those of several turns are written by one call. Any other handler gets an ordinary record for each line.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..core.limit import QueueSettings
from ..core.policy import Cause, Policy
from ..core.state import State
from ..core.visible import indented
from ..log import target
from ..store.contract import Complete, Reaped, Released, Retried
from .changes import changed_fields
from .line_handler import LineHandler, sole_handler
from .lines import JobLine, named, worker_name
from .observer import Ended, Observer, WorkerEvent, WorkerView

log = logging.getLogger("holdfast")
EVENT_OF = {
    "complete": "job_completed", "retry": "job_retried", "fail": "job_failed", "snooze": "job_snoozed",
    "release": "job_released", "cancel": "job_cancelled",
}  # fmt: skip
STALLED = "job_stalled"
LEVEL_OF = {"job_retried": logging.WARNING, STALLED: logging.WARNING, "job_failed": logging.ERROR}
"""Other ends of a job are told at the level `info`."""


class JobLog(Observer):
    """Logs what a worker does. Without `jobs`, ends of attempts only where something went wrong."""

    def __init__(self, *, jobs: bool = True) -> None:
        self._jobs = jobs
        self._worker = ""
        self._worker_json = '""'
        self._view: WorkerView | None = None
        self._handler: LineHandler | None = None
        """Where lines may still wait to be written."""

    # --- jobs

    def hears_completions(self) -> bool:
        return self._jobs and target().isEnabledFor(logging.INFO)

    def settled(self, ended: Sequence[Ended]) -> None:
        logger = target()
        info = self._jobs and logger.isEnabledFor(logging.INFO)
        if not info and not (ended := [each for each in ended if type(each.settlement) is not Complete]):
            return
        handler = sole_handler(logger)
        if handler is None:
            self._log_each(ended, info)
        else:
            self._write(handler, logger, ended, info)

    def _log_each(self, ended: Sequence[Ended], info: bool) -> None:
        for each in ended:
            line = job_line(each)
            if (info or line.level > logging.INFO) and log.isEnabledFor(line.level):
                self._log(line)

    def _log(self, line: JobLine) -> None:
        extra = {**line.fields(), "worker": self._worker}
        if line.traceback:
            extra["traceback"] = line.traceback
        record = log.makeRecord(log.name, line.level, "", 0, "%s", (line.text(),), None, extra=extra)
        record.exc_text = indented(line.traceback.rstrip()) if line.traceback else None
        log.handle(record)

    def _write(self, handler: LineHandler, logger: logging.Logger, ended: Sequence[Ended], info: bool) -> None:
        """Write the lines of a turn; those of completed jobs may wait for the next turns."""
        form, worker, all_completed = handler.form, self._worker_json, True

        def other(each: Ended) -> str:
            nonlocal all_completed
            line, all_completed = job_line(each), False
            told = (info or line.level > logging.INFO) and logger.isEnabledFor(line.level)
            return form.job(logger.name, worker, line) if told else ""

        lines = form.turn(logger.name, worker, ended, other) if info else list(map(other, ended))
        if text := "".join(lines):
            self._handler = handler
            handler.write(text, at_once=not all_completed)

    def lost(self, ended: Sequence[Ended], why: str) -> None:
        for each in ended:
            self._log(JobLine(logging.WARNING, "attempt_lost", each.claimed, each.waited, each.ran, detail=why))

    def reaped(self, queue: str, reaped: Reaped) -> None:
        for job in reaped.jobs:
            lease, failed = job.lease, job.state is State.FAILED
            extra = self._of_worker | {
                "job_id": lease.id, "run": lease.run, "attempt": lease.attempt, "task": job.task, "queue": lease.queue,
                "state": str(job.state), "ran": job.ran_ms / 1000,
            }  # fmt: skip
            log.log(
                logging.ERROR if failed else logging.WARNING,
                "job_reaped: %s run %d attempt %d ran %.3f s: its worker vanished, and it is %s now",
                named(job.task, lease), lease.run, lease.attempt, job.ran_ms / 1000, job.state, extra=extra,
            )  # fmt: skip

    # --- the worker

    def begin(self, worker: WorkerView) -> None:
        self._view, self._worker, self._worker_json = worker, worker.name, worker_name(worker.name)

    def end(self, worker: WorkerView) -> None:
        if self._handler is not None:
            self._handler.write("")

    def happened(self, event: WorkerEvent) -> None:
        if event.name == "worker_started":
            self._started()
        elif event.name == "worker_stopping":
            extra = self._of_worker | {"detail": event.detail}
            log.info("worker_stopping: %s claims no more jobs: %s", self._worker, event.detail, extra=extra)
        elif event.name == "worker_stopped":
            self._stopped()
        elif event.name == "worker_out":
            log.error("worker_out: %s ends unasked: %s", event.worker, event.detail, extra=self._of_worker)
        elif event.name == "wakeup_restored":
            log.info("wakeup_restored: wake-ups arrive again", extra=self._of_worker)
        elif event.name == "schedule_fired":
            log.info("schedule_fired: queue %s: %s", event.queue, event.detail, extra=self._of_worker)

    def _started(self) -> None:
        if (view := self._view) is not None:
            extra = {"queues": list(view.queues), "slots": view.slots, "store": view.store_url}
            told = ", ".join(view.queues), view.slots, view.store_url
            log.info(
                "worker_started: %s serves %s with %d slots on %s", self._worker, *told, extra=self._of_worker | extra
            )

    def _stopped(self) -> None:
        counts = {name: count for name, count in (self._view.counts if self._view else {}).items() if count}
        told = ", ".join(f"{count} {name}" for name, count in counts.items()) or "no job came"
        log.info("worker_stopped: %s: %s", self._worker, told, extra=self._of_worker | {"counts": counts})

    def settings_changed(self, queue: str, before: QueueSettings, after: QueueSettings) -> None:
        told = changed_fields(before, after)
        log.info("settings_changed: queue %s: %s", queue, told, extra=self._of_worker | {"queue": queue})

    def policy_changed(self, queue: str, task: str, before: Policy, after: Policy) -> None:
        told = changed_fields(before, after)
        extra = self._of_worker | {"queue": queue, "task": task}
        log.info("policy_changed: task %s of queue %s: %s", task, queue, told, extra=extra)

    @property
    def _of_worker(self) -> dict[str, object]:
        return {"worker": self._worker}


def job_line(ended: Ended) -> JobLine:
    """Return what is told of an attempt that was settled."""
    entry, transition = ended.settlement, ended.transition
    event = EVENT_OF.get(transition, "job_settled")
    if transition == "release" and ended.cause is Cause.STALL:
        event = STALLED
    line = JobLine(
        LEVEL_OF.get(event, logging.INFO), event, ended.claimed, ended.waited, ended.ran, retry_in=ended.retry_in
    )
    if ended.cause is not None and transition != "cancel":
        line.cause = str(ended.cause)
    error = getattr(entry, "error", None)
    if error is not None and transition != "cancel":
        line.error_type, line.error_message = error.type, error.message
        line.traceback = error.traceback if transition == "fail" else ""
    elif isinstance(entry, Released | Retried) and ended.error is not None and event == STALLED:
        line.detail = str(ended.error)
    return line
