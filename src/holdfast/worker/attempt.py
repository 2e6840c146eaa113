"""One attempt: a claimed job, its handler, and how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from ..core.duration import instant_ms, to_ms
from ..core.policy import Cause, Retry
from ..errors import Aborted, ConfigError, Snooze
from ..executor import Executors, run_inline
from ..executor.call import arguments, completed
from ..executor.failure import describe, is_permanent, kinds
from ..executor.process.ending import Died, Evacuated
from ..executor.trouble import CannotStart
from ..job import Job, Report, WaitedFor, _current
from ..registry import Registry
from ..store.contract import Abort, Claimed, Complete, Failed, Lease, Released, Retried, Settled, Settlement, Snoozed
from ..task import Task
from .capacity import need_of
from .completion import VOID, Desk, is_trouble_of_a_store
from .remote import STARTING, Encoded, Remote

log = logging.getLogger("holdfast")

Finished = Callable[["Attempt", Settlement | None], None]
MakeDesk = Callable[[Task[Any, Any]], Desk]


_WEIGHT: dict[Abort, int] = {"cancelled": 1, "shutdown": 2, "timeout": 2}
"""A reason overrules lighter ones; those after which nothing counts are the heaviest."""


FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 30_000
"""A job whose store was in trouble comes back after so long, twice as long each time."""


class TimedOut(TimeoutError):
    """The handler ran for longer than its time-out."""


class Attempt:
    """A claimed job while its handler runs."""

    __slots__ = (
        "_alarm", "_began", "_desk", "_finished", "_killed", "_make_desk", "_reason", "_remote", "_report", "_task",
        "claimed", "error", "handler", "in_thread", "job", "late_since", "value",
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
        self._report = report
        self._remote: Remote | None = None
        self._killed = False
        self._reason: Abort | None = None
        """Why it was told to stop, by the heaviest reason so far; the handler's signal keeps to the first."""
        self._make_desk = desk
        self._desk: Desk | None = None
        self._finished = finished
        self._task: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.in_thread = False
        self.late_since: float | None = None
        """When its time was over, by the clock of its loop."""
        self.error: BaseException | None = None
        """What the handler raised, for whoever is told of its end."""
        self.value: Any = UNSET
        """What it returned, if that was in this process."""
        self._began: float | None = None

    @property
    def lease(self) -> Lease:
        return self.claimed.lease

    @property
    def reason(self) -> Abort | None:
        """Why it was told to stop."""
        return self._reason

    @property
    def ran(self) -> float | None:
        """For how many seconds its handler has run, if it was started."""
        return None if self._began is None else time.monotonic() - self._began

    @property
    def done(self) -> tuple[Complete, Settled] | None:
        """How the handler completed its job itself, in a transaction of its own."""
        return None if self._desk is None else self._desk.done

    def _at_desk(self) -> Desk:
        if self._desk is None:
            self._desk = self._make_desk(self.handler)
        return self._desk

    def start(self, loop: asyncio.AbstractEventLoop, registry: Registry, executors: Executors) -> None:
        """The handler runs."""
        if self.handler.in_process and not executors.in_place:
            seat = executors.pool.sit(need_of(self.handler))
            if seat is None:
                log.error("%r: no process has room for it, so it is handed back", self.job)
                self._end(Released(self.lease))
                return
            self._remote = Remote(executors, seat)
        self._task = loop.create_task(self._run(registry, executors))
        self._start_clock(STARTING if self._remote is not None else 0.0)

    def _start_clock(self, more: float = 0.0) -> None:
        """The handler has its time-out from now on, and so many seconds more."""
        self._began = time.monotonic()
        if self._alarm is not None:
            self._alarm.cancel()
        if self.claimed.timeout_ms is not None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self.claimed.timeout_ms / 1000 + more, self.abort, "timeout")

    def abort(self, reason: Abort) -> None:
        """The handler hears that it should stop; where nothing that it says counts any more, it is cancelled."""
        if reason == "killed":
            self._kill()
            return
        if reason == "timeout" and self._remote is not None and self._remote.is_held_up:
            self._remote.evacuate()  # the time was not its own
            return
        self.job.signal.fire(reason)
        if not self._heed(reason):
            return
        if reason == "timeout":
            self.late_since = asyncio.get_running_loop().time()
        if self._remote is not None and self._remote.is_running:
            self._remote.kill() if reason in VOID else self._remote.stop(reason)
        elif (reason in VOID or reason == "timeout") and not self.in_thread and self._task is not None:
            self._task.cancel()

    def _heed(self, reason: Abort) -> bool:
        """True when the reason is heavier than those before it: a handler may be deaf to being asked to stop."""
        heavier = self._reason is None or _WEIGHT.get(reason, 3) > _WEIGHT.get(self._reason, 3)
        self._reason = reason if heavier else self._reason
        return heavier

    def _kill(self) -> None:
        """The handler is stopped as hard as can be: its process is killed, a coroutine cancelled, a thread told."""
        self.job.signal.fire("cancelled")
        self._heed("cancelled")
        if not self._killed:
            self._killed = True
            self.give_up(even_threads=False)

    def give_up(self, *, even_threads: bool = True) -> None:
        """The handler is cancelled or killed, and the job handed back; a thread, which cannot be, is left alone."""
        if self._remote is not None and self._remote.is_running:
            self._remote.kill()
        elif self.in_thread:
            if even_threads:
                self.abandon()
        elif self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """The attempt is over for this worker, whatever its handler does: the job is handed back."""
        self._end(Released(self.lease))

    def leave_behind(self) -> None:
        """The attempt is over for this worker, which will end, and its thread with it: it counts as a time-out."""
        self._end(self._raised(TimedOut("the handler did not return after its time-out, and its worker ended")))

    async def _run(self, registry: Registry, executors: Executors) -> None:
        """However the handler ends, there is exactly one word of it."""
        _current.set(self.job)
        try:
            if self.handler.runs_in == "inline" and not registry.middleware:
                args, kwargs = arguments(self.handler, self.claimed, self.job)
                result = await run_inline(self.handler.fn, args, kwargs)
            else:
                result = await self._call(registry, executors)
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

    async def _call(self, registry: Registry, executors: Executors) -> Any:
        if not registry.middleware:
            return await self._handler(executors)

        async def innermost() -> Any:
            result = await self._handler(executors)
            decoded = isinstance(result, Encoded) and result.then is None
            return self.handler.decode_result(result.data) if decoded else result

        step: Callable[[], Any] = innermost
        for around in reversed(registry.middleware):
            step = _wrapped(around, self.job, step)
        return await step()

    async def _handler(self, executors: Executors) -> Any:
        if self._remote is not None:
            return await self._remote.call(self.handler, self.claimed, self.job, self._report, self._start_clock)
        args, kwargs = arguments(self.handler, self.claimed, self.job)
        if self.handler.runs_in == "thread":
            self.in_thread = True
            try:
                return await executors.threads.run(self.handler.fn, args, kwargs)
            finally:
                self.in_thread = False
        return await run_inline(self.handler.fn, args, kwargs)

    def _completed(self, result: Any) -> Settlement | None:
        reason = self._reason
        if reason in VOID:
            return None
        if reason == "timeout":
            return self._raised(TimedOut("the handler returned after its time-out"))
        if isinstance(result, Encoded):
            return Complete(self.lease, result.data, self.job.result_ttl_ms, result.then)
        self.value = result
        return completed(self.job, result, self.handler)

    def _raised(self, error: BaseException) -> Settlement | None:
        self.error = error
        reason = self._reason
        if reason in VOID:
            return None
        if reason == "timeout":
            told = error if isinstance(error, TimedOut) else TimedOut("the handler ran for longer than its time-out")
            self.error = told
            return Retried(self.lease, describe(told, Cause.TIMEOUT), Cause.TIMEOUT)
        if isinstance(error, CannotStart) or (
            isinstance(error, Evacuated) and reason is None and not error.is_to_blame
        ):
            return Released(self.lease, cause=Cause.WORKER)
        if isinstance(error, asyncio.CancelledError | Aborted) and reason == "shutdown":
            return Released(self.lease)
        if isinstance(error, Evacuated) or (isinstance(error, Died) and reason is not None):
            return Released(self.lease)
        if isinstance(error, Died):
            record = error.record()
            if error.is_over_limit:
                return Retried(self.lease, record)
            return Released(self.lease, 0, record, Cause.STALL, error.company)
        if isinstance(error, Snooze):
            return self._snoozed(error)
        if is_permanent(error) or self._retry().is_permanent(kinds(error)):
            return Failed(self.lease, describe(error, Cause.PERMANENT), Cause.PERMANENT, self.job.result_ttl_ms)
        if is_trouble_of_a_store(error, self._desk.undone if self._desk is not None else None):
            pause = min(FIRST_PAUSE_MS * 2 ** min(self.claimed.counters.releases, 20), LONGEST_PAUSE_MS)
            return Released(self.lease, pause, describe(error, Cause.RELEASE))
        return Retried(self.lease, describe(error))

    def _retry(self) -> Retry:
        overrides = self.claimed.overrides
        declared: Retry = self.handler.setting("retry")
        return overrides.retry if overrides and overrides.retry else declared

    def _snoozed(self, error: Snooze) -> Settlement:
        try:
            if error.at is not None:
                return Snoozed(self.lease, run_at_ms=instant_ms(error.at, "Snooze(at)"))
            return Snoozed(self.lease, delay_ms=to_ms(error.after or 0, "Snooze(after)"))
        except ConfigError as wrong:
            return Retried(self.lease, describe(wrong))

    def _end(self, settlement: Settlement | None) -> None:
        if self._remote is not None:
            self._remote.close()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._finished(self, settlement)
        # Each of these leads back here, and what is over must not wait for the garbage collector.
        self._task = self.error = None
        self.value = UNSET
        self.job._close()


def _wrapped(around: Any, job: Job, step: Callable[[], Any]) -> Callable[[], Any]:
    async def call() -> Any:
        outcome = around(job, step)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return call
