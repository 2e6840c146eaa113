"""The part of an attempt whose handler runs in a process: call it, stop it, kill it, and read its outcome."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from ...app.task import AnyTask
from ...core.size import fit_result
from ...errors import (
    Aborted,
    ConfigError,
    HandlerRaised,
    PayloadError,
    Permanent,
    ResultTooLarge,
    RetryAt,
    Snooze,
    StoreError,
)
from ...executor import Executors
from ...executor.failure import RetryTime, clipped
from ...executor.process import frames
from ...executor.process.job import ProcessJob
from ...executor.shortage import CannotStart
from ...handler.job import Job, Report
from ...store.contract import Abort, Claimed, Continuation, Settled
from ...telemetry import traces

STARTING = 60.0
"""How long a process has to start and to import a handler, before the handler's own time begins."""


class EncodedResult(msgspec.Struct, frozen=True):
    """A result that is encoded already, or the job with which the chain continues."""

    data: bytes
    then: Continuation | None = None
    settled: Settled | None = None
    """What the store answered to a handler that completed its job itself, in a transaction of its own."""


class ProcessAttempt:
    """One handler in a process of the pool, from the moment when its job was claimed."""

    __slots__ = ("_executors", "_in_loop", "_seat", "has_begun", "is_running")

    def __init__(self, executors: Executors, seat: int) -> None:
        self._executors = executors
        self._seat = seat
        self.is_running = False
        """True while the handler is in the process."""
        self.has_begun = False
        """The process has begun with the handler."""
        self._in_loop = True
        """It needs the event loop of its process, as every handler does to begin and a coroutine afterwards."""

    async def call(
        self, task: AnyTask, claimed: Claimed, job: Job, report: Report, began: Callable[[], None], session: str
    ) -> EncodedResult:
        """Return what the handler returned; raise what it raised, or how its process ended."""

        def begin() -> None:
            self._in_loop, self.has_begun = inspect.iscoroutinefunction(task.fn), True
            began()

        order = ProcessJob(
            handler=self._executors.handler(task), claimed=claimed, report=report, began=begin,
            blockers=self._executors.blockers, context=_crossing(job), worker=job.worker, retry=job.retry,
            session=session, trace=traces.carrier(),
        )  # fmt: skip
        done = self._executors.pool.run(self._seat, order)
        self.is_running = True
        try:
            frame = await done
        finally:
            self.is_running = False
        if isinstance(frame, frames.Returned):
            fit_result(frame.result, order.handler.max_result, f"{job.queue}/{job.id}", ResultTooLarge)
        if frame.ttl_ms is not None:
            job.keep_result(frame.ttl_ms / 1000)
        if isinstance(frame, frames.Raised):
            error = _raised(frame, trusted=task.runs_in != "sandbox")
            if isinstance(error, CannotStart):
                self._executors.pool.renew(self._seat)
            raise error
        if frame.then is not None and task.runs_in == "sandbox":
            raise ConfigError(f"{job!r}: a sandboxed handler cannot continue its chain, or it could enqueue anything")
        return EncodedResult(frame.result, frame.then, frame.settled if task.runs_in != "sandbox" else None)

    def stop(self, reason: Abort) -> None:
        """Tell the handler to stop; past its time-out, its process will be ended."""
        self._executors.pool.stop(self._seat, reason)

    @property
    def is_held_up(self) -> bool:
        """True while another job in the process keeps this one from running."""
        return self.is_running and self._in_loop and self._executors.pool.is_held_up(self._seat)

    def evacuate(self) -> None:
        """Give the process up: jobs that still finish in it count, and the rest are handed back."""
        self._executors.pool.evacuate(self._seat)

    def kill(self) -> None:
        """Kill the process."""
        self._executors.pool.kill(self._seat)

    def close(self) -> None:
        """Free its units of the pool."""
        self._executors.pool.vacate(self._seat)


def _crossing(job: Job) -> dict[str, Any] | None:
    """Return what middleware gave to the handler; raise when it cannot be sent to a process."""
    if not job.has_context:
        return None
    for name, value in job.context.items():
        try:
            msgspec.msgpack.encode(value)
        except Exception as error:
            raise PayloadError(
                f"{job!r}: context[{name!r}] cannot cross into a process ({error}): give it plain data",
                path=f"context.{name}",
            ) from None
    return job.context


def _raised(frame: frames.Raised, *, trusted: bool) -> Exception:
    """Return what the handler raised, as far as this process can rebuild it."""
    if frame.kind == "trouble" and trusted:
        return CannotStart(frame.error.message)
    if frame.kind == "aborted":
        return Aborted(frame.error.fields.get("reason", "cancelled"))
    if frame.kind == "snooze":
        return Snooze(at=frame.at_ms / 1000) if frame.at_ms is not None else Snooze(after=(frame.delay_ms or 0) / 1000)
    record = clipped(frame.error)
    error: Exception = Permanent(record.message) if frame.kind == "permanent" else HandlerRaised(record)
    if frame.kind == "store" and trusted:
        error = StoreError(record.message)
    own = RetryTime(frame.at_ms, frame.delay_ms).bounded()
    vars(error).update(
        _record=record, _kinds=frame.kinds, _retry_time=own
    )  # what `describe`, `kinds` and `retry_time` go by
    if frame.kind != "retry_at":
        return error
    return (
        RetryAt(own.at_ms / 1000, error)
        if own.at_ms is not None
        else RetryAt(None, error, delay=(own.delay_ms or 0) / 1000)
    )
