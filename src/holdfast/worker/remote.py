"""A handler in a process, as its attempt sees it: called, told to stop, killed, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..core.size import fit_result
from ..errors import Aborted, ConfigError, HandlerRaised, PayloadError, Permanent, ResultTooLarge, Snooze
from ..executor import Executors
from ..executor.failure import clipped
from ..executor.process import wire
from ..executor.process.order import Order
from ..executor.trouble import CannotStart
from ..job import Job, Report
from ..store.contract import Abort, Claimed, Continuation
from ..task import Task

STARTING = 60.0
"""How long a process has to start and to import a handler, before the handler's own time begins."""


class Encoded(msgspec.Struct, frozen=True):
    """A result that is encoded already, or the job with which the chain goes on."""

    data: bytes
    then: Continuation | None = None


class Remote:
    """One handler in a process of the pool, from the moment when its job was claimed."""

    __slots__ = ("_executors", "_seat", "is_running")

    def __init__(self, executors: Executors, seat: int) -> None:
        self._executors = executors
        self._seat = seat
        self.is_running = False
        """True while the handler is in the process."""

    async def call(
        self, task: Task[Any, Any], claimed: Claimed, job: Job, report: Report, began: Callable[[], None]
    ) -> Encoded:
        """Return what the handler returned; raise what it raised, or how its process ended."""
        order = Order(
            handler=self._executors.handler(task), claimed=claimed, report=report, began=began,
            blockers=self._executors.blockers, context=_crossing(job),
        )  # fmt: skip
        done = self._executors.pool.run(self._seat, order)
        self.is_running = True
        try:
            frame = await done
        finally:
            self.is_running = False
        if isinstance(frame, wire.Returned):
            fit_result(frame.result, order.handler.max_result, f"{job.queue}/{job.id}", ResultTooLarge)
        if frame.ttl_ms is not None:
            job.keep_result(frame.ttl_ms / 1000)
        if isinstance(frame, wire.Raised):
            raise _raised(frame, trusted=task.runs_in != "sandbox")
        if frame.then is not None and task.runs_in == "sandbox":
            raise ConfigError(f"{job!r}: a sandboxed handler cannot continue its chain, or it could enqueue anything")
        return Encoded(frame.result, frame.then)

    def stop(self, reason: Abort) -> None:
        """The handler hears that it should stop; past its time, its process will be ended."""
        self._executors.pool.stop(self._seat, reason)

    @property
    def is_held_up(self) -> bool:
        """True while another job in the process keeps this one from going on."""
        return self.is_running and self._executors.pool.is_held_up(self._seat)

    def evacuate(self) -> None:
        """The process is given up: what finishes in it still counts, and the rest is handed back."""
        self._executors.pool.evacuate(self._seat)

    def kill(self) -> None:
        """The process is killed."""
        self._executors.pool.kill(self._seat)

    def close(self) -> None:
        """Its units are free."""
        self._executors.pool.rise(self._seat)


def _crossing(job: Job) -> dict[str, Any] | None:
    """Return what middleware gave to the handler, if it can cross into a process."""
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


def _raised(frame: wire.Raised, *, trusted: bool) -> Exception:
    """Return what the handler raised, as far as this process can know it."""
    if frame.kind == "trouble" and trusted:
        return CannotStart(frame.error.message)
    if frame.kind == "aborted":
        return Aborted(frame.error.fields.get("reason", "cancelled"))
    if frame.kind == "snooze":
        return Snooze(at=frame.at_ms / 1000) if frame.at_ms is not None else Snooze(after=(frame.delay_ms or 0) / 1000)
    record = clipped(frame.error)
    error = Permanent(record.message) if frame.kind == "permanent" else HandlerRaised(record)
    vars(error).update(_record=record, _kinds=frame.kinds)  # what `describe` and `kinds` go by
    return error
