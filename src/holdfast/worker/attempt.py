"""One attempt: a claimed job, its handler, and how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from ..core.duration import instant_ms, to_ms
from ..core.policy import Cause
from ..errors import Aborted, ConfigError, Permanent, Snooze
from ..executor import ThreadExecutor, run_inline
from ..job import Job, Report, WaitedFor, _current
from ..registry import Registry
from ..store.contract import Abort, Claimed, Complete, Failed, Lease, Released, Retried, Settled, Settlement, Snoozed
from ..task import Task
from .completion import VOID, Desk, completed
from .failure import describe

log = logging.getLogger("holdfast")

Finished = Callable[["Attempt", Settlement | None], None]
MakeDesk = Callable[[Task[Any, Any]], Desk]


class TimedOut(TimeoutError):
    """The handler ran for longer than its time-out."""


class Attempt:
    """A claimed job while its handler runs."""

    __slots__ = (
        "_alarm", "_desk", "_finished", "_make_desk", "_task", "claimed", "error", "handler", "in_thread", "job",
    )  # fmt: skip

    def __init__(
        self,
        claimed: Claimed,
        handler: Task[Any, Any],
        report: Report,
        finished: Finished,
        desk: MakeDesk,
        waited_for: WaitedFor | None = None,
    ) -> None:
        self.claimed = claimed
        self.handler = handler
        self.job = Job(claimed, report, self._at_desk, waited_for)
        self._make_desk = desk
        self._desk: Desk | None = None
        self._finished = finished
        self._task: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.in_thread = False
        self.error: BaseException | None = None
        """What the handler raised."""

    @property
    def lease(self) -> Lease:
        return self.claimed.lease

    @property
    def done(self) -> tuple[Complete, Settled] | None:
        """How the handler completed its job itself, in a transaction of its own."""
        return None if self._desk is None else self._desk.done

    def _at_desk(self) -> Desk:
        if self._desk is None:
            self._desk = self._make_desk(self.handler)
        return self._desk

    def start(self, loop: asyncio.AbstractEventLoop, registry: Registry, threads: ThreadExecutor) -> None:
        """The handler runs."""
        timeout = self.claimed.timeout_ms
        self._task = loop.create_task(self._run(registry, threads))
        if timeout is not None:
            self._alarm = loop.call_later(timeout / 1000, self.abort, "timeout")

    def abort(self, reason: Abort) -> None:
        """The handler hears that it should stop; where nothing that it says counts any more, it is cancelled."""
        fired = self.job.signal.fire(reason)
        if fired and (reason in VOID or reason == "timeout") and not self.in_thread and self._task is not None:
            self._task.cancel()

    def give_up(self) -> None:
        """The handler is cancelled, so that the job is handed back; one in a thread, which cannot be, is left alone."""
        if self.in_thread:
            self.abandon()
        elif self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """The attempt is over for this worker, whatever its handler does: the job is handed back."""
        self._end(Released(self.lease))

    async def _run(self, registry: Registry, threads: ThreadExecutor) -> None:
        """However the handler ends, there is exactly one word of it."""
        _current.set(self.job)
        try:
            if self.handler.runs_in == "inline" and not registry.middleware:
                args, kwargs = self._arguments()
                result = await run_inline(self.handler.fn, args, kwargs)
            else:
                result = await self._call(registry, threads)
            if self._desk is not None:
                self._desk.refuse_unfinished(self.job)
            settlement = self.done[0] if self.done else self._completed(result)
        except BaseException as error:
            settlement = await self._undone(error)
        self._end(settlement)

    async def _undone(self, error: BaseException) -> Settlement | None:
        """Return the word for what the handler raised, once nothing that it wrote is left open."""
        if self._desk is not None:
            try:
                await self._desk.leave(error)
            except BaseException:
                log.exception("%r: its transaction could not be rolled back; the database will do it", self.job)
            if self._desk.done is not None:
                log.warning("%r raised after it had completed itself, which stands", self.job, exc_info=error)
                self.error = error
                return self._desk.done[0]
        return self._raised(error)

    async def _call(self, registry: Registry, threads: ThreadExecutor) -> Any:
        args, kwargs = self._arguments()
        if not registry.middleware:
            return await self._handler(args, kwargs, threads)

        async def innermost() -> Any:
            return await self._handler(args, kwargs, threads)

        step: Callable[[], Any] = innermost
        for around in reversed(registry.middleware):
            step = _wrapped(around, self.job, step)
        return await step()

    async def _handler(self, args: tuple[Any, ...], kwargs: dict[str, Any], threads: ThreadExecutor) -> Any:
        fn = self.handler.fn
        if self.handler.runs_in == "thread":
            self.in_thread = True
            try:
                return await threads.run(fn, args, kwargs)
            finally:
                self.in_thread = False
        return await run_inline(fn, args, kwargs)

    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        handler = self.handler
        if self.claimed.task is None:
            args, kwargs = handler.signature.take_one(handler.codec.decode(self.claimed.payload))
        else:
            args, kwargs = handler.signature.decode(self.claimed.payload, handler.codec)
        for name in handler.signature.injected:
            kwargs[name] = self.job
        return args, kwargs

    def _completed(self, result: Any) -> Settlement | None:
        reason = self.job.abort_reason
        if reason in VOID:
            return None
        if reason == "timeout":
            return self._raised(TimedOut("the handler returned after its time-out"))
        return completed(self.job, result, self.handler)

    def _raised(self, error: BaseException) -> Settlement | None:
        self.error = error
        reason = self.job.abort_reason
        if reason in VOID:
            return None
        if reason == "timeout":
            told = error if isinstance(error, TimedOut) else TimedOut("the handler ran for longer than its time-out")
            return Retried(self.lease, describe(told, Cause.TIMEOUT), Cause.TIMEOUT)
        if isinstance(error, asyncio.CancelledError | Aborted) and reason == "shutdown":
            return Released(self.lease)
        if isinstance(error, Snooze):
            return self._snoozed(error)
        if isinstance(error, Permanent):
            return Failed(self.lease, describe(error, Cause.PERMANENT), Cause.PERMANENT, self.job.result_ttl_ms)
        return Retried(self.lease, describe(error))

    def _snoozed(self, error: Snooze) -> Settlement:
        try:
            if error.at is not None:
                return Snoozed(self.lease, run_at_ms=instant_ms(error.at, "Snooze(at)"))
            return Snoozed(self.lease, delay_ms=to_ms(error.after or 0, "Snooze(after)"))
        except ConfigError as wrong:
            return Retried(self.lease, describe(wrong))

    def _end(self, settlement: Settlement | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._finished(self, settlement)


def _wrapped(around: Any, job: Job, step: Callable[[], Any]) -> Callable[[], Any]:
    async def call() -> Any:
        outcome = around(job, step)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return call
