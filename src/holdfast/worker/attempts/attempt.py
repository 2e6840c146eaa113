"""One attempt: a claimed job, its handler, and how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import UNSET

from ...app.task import AnyTask
from ...executor import Executors, run_inline
from ...executor.at_work import at_work
from ...executor.call import arguments, completed
from ...executor.handler_transaction import VOID, HandlerTransaction
from ...handler.job import Job, Report, _current
from ...handler.middleware import Middleware
from ...store.contract import Abort, Claimed, Complete, Lease, Released, Settled, Settlement
from ...telemetry import traces
from ..turns.capacity import need_of
from .handler_services import HandlerServices
from .process_attempt import STARTING, EncodedResult, ProcessAttempt
from .verdict import Raising, TimedOut, verdict

log = logging.getLogger("holdfast")

Ended = Callable[["Attempt", Settlement | None], None]


_WEIGHT: dict[Abort, int] = {"store_lost": 0, "cancelled": 1, "shutdown": 2, "timeout": 2}
"""A reason overrules lighter ones; those after which no outcome counts are the heaviest."""


class Attempt:
    """A claimed job while its handler runs."""

    __slots__ = (
        "_ended", "_killed", "_process", "_progress", "_reason", "_services", "_span", "_task", "_timer",
        "_transaction", "began", "claimed", "error", "handler", "in_thread", "job", "late_since", "value",
    )  # fmt: skip

    def __init__(
        self, claimed: Claimed, handler: AnyTask, services: HandlerServices, progress: Report, ended: Ended
    ) -> None:
        self.claimed = claimed
        self.handler = handler
        self.job = Job(claimed, progress, self._own_transaction, services, services.blockers)
        self._services = services
        self._progress = progress
        self._ended = ended
        self._process: ProcessAttempt | None = None
        self._killed = False
        self._reason: Abort | None = None
        """Why it was told to stop, by the heaviest reason so far; the handler's signal keeps to the first."""
        self._transaction: HandlerTransaction | None = None
        self._task: asyncio.Task[None] | None = None
        self._span: traces.ProcessSpan | None = None
        """Its span, if it is recorded."""
        self._timer: asyncio.TimerHandle | None = None
        self.in_thread = False
        self.late_since: float | None = None
        """When its time was over, by the clock of its loop."""
        self.error: BaseException | None = None
        """What the handler raised, for the hooks that are told of its end."""
        self.value: object = UNSET
        """What it returned, if that was in this process."""
        self.began: float | None = None
        """When its handler was started, by `time.monotonic`."""

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
        return None if self.began is None else time.monotonic() - self.began

    @property
    def done(self) -> tuple[Complete, Settled] | None:
        """How the handler completed its job itself, in a transaction of its own."""
        return None if self._transaction is None else self._transaction.done

    def _own_transaction(self) -> HandlerTransaction:
        if self._transaction is None:
            self._transaction = self._services.transaction(self.handler)
        return self._transaction

    def start(self, loop: asyncio.AbstractEventLoop, middleware: Sequence[Middleware], executors: Executors) -> None:
        """Start the handler."""
        if self.handler.in_process and not executors.in_place:
            seat = executors.pool.reserve(need_of(self.handler))
            if seat is None:
                log.error("pool_full: %r: no process has room for it, so it is handed back", self.job)
                self._end(Released(self.lease))
                return
            self._process = ProcessAttempt(executors, seat)
        self._task = loop.create_task(self._run(middleware, executors))
        self._start_clock(STARTING if self._process is not None else 0.0)

    def _start_clock(self, more: float = 0.0) -> None:
        """Give the handler its time-out from now on, and so many seconds more."""
        self.began = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        if self.claimed.timeout_ms is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.claimed.timeout_ms / 1000 + more, self.abort, "timeout")

    def abort(self, reason: Abort) -> None:
        """Tell the handler to stop; where its outcome does not count any more, cancel it."""
        if reason == "killed":
            self._kill()
            return
        if reason == "timeout" and self._process is not None and self._process.is_held_up:
            self._process.evacuate()  # another handler used up its time
            return
        self.job.signal.fire(reason)
        if not self._heed(reason):
            return
        if reason == "timeout":
            self.late_since = asyncio.get_running_loop().time()
        if self._process is not None and self._process.is_running:
            self._process.kill() if reason in VOID else self._process.stop(reason)
        elif (reason in VOID or reason == "timeout") and not self.in_thread and self._task is not None:
            self._task.cancel()

    def _heed(self, reason: Abort) -> bool:
        """Return whether the reason is heavier than those before it: a handler may ignore that it should stop."""
        heavier = self._reason is None or _WEIGHT.get(reason, 3) > _WEIGHT.get(self._reason, 3)
        self._reason = reason if heavier else self._reason
        return heavier

    def _kill(self) -> None:
        """Stop the handler as hard as possible: kill its process, cancel a coroutine, tell a thread."""
        self.job.signal.fire("cancelled")
        self._heed("cancelled")
        if not self._killed:
            self._killed = True
            self.give_up(even_threads=False)

    def give_up(self, *, even_threads: bool = True) -> None:
        """Cancel or kill the handler, so that its job is handed back; a thread, which cannot be, is abandoned."""
        if self._process is not None and self._process.is_running:
            self._process.kill()
        elif self.in_thread:
            if even_threads:
                self.abandon()
        elif self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """Hand the job back, whatever its handler still does."""
        self._end(Released(self.lease))

    def abandon_as_timed_out(self) -> None:
        """Settle the job as timed out, though its thread still runs: the worker will end, and the thread with it."""
        self._end(self._raised(TimedOut("the handler did not return after its time-out, and its worker ended")))

    def keep_present(self, executors: Executors) -> None:
        """Mark the id as running in this process until its coroutine ends; threads and processes have their marks."""
        if self._task is not None and self._process is None and not self.in_thread:
            at_work.watch(executors.key(self.lease), self._task)

    async def _run(self, middleware: Sequence[Middleware], executors: Executors) -> None:
        """Run the handler; however it ends, the attempt ends exactly once."""
        _current.set(self.job)
        self._span = traces.process(self.claimed)
        try:
            if self._span is not None and self._span.waits:
                await self._services.link_blockers(self._span, self.lease)
            if self.handler.runs_in == "inline" and not middleware:
                args, kwargs = arguments(self.handler, self.claimed, self.job)
                result = await run_inline(self.handler.fn, args, kwargs)
            else:
                result = await self._call(middleware, executors)
            if self._transaction is not None:
                self._transaction.refuse_unfinished(self.job)
            settlement = self.done[0] if self.done else self._completed(result)
        except BaseException as error:
            settlement = await self._undone(error)
        self._end(settlement)

    async def _undone(self, error: BaseException) -> Settlement | None:
        """Return the settlement for what the handler raised, once none of its writes is left open."""
        if self._transaction is not None:
            try:
                await self._transaction.roll_back(error)
            except BaseException:
                log.exception("rollback_failed: %r: the database will roll its transaction back", self.job)
            if self._transaction.done is not None:
                log.warning("raised_after_complete: %r is completed, which stands", self.job, exc_info=error)
                self.error = error
                return self._transaction.done[0]
        return self._raised(error)

    async def _call(self, middleware: Sequence[Middleware], executors: Executors) -> object:
        if not middleware:
            return await self._handler(executors)

        async def innermost() -> object:
            result = await self._handler(executors)
            if isinstance(result, EncodedResult) and result.then is None:
                return self.handler.decode_result(result.data)
            return result

        step: Callable[[], Awaitable[object]] = innermost
        for around in reversed(middleware):
            step = _wrapped(around, self.job, step)
        return await step()

    async def _handler(self, executors: Executors) -> object:
        if self._process is not None:
            return await self._call_in_process(self._process)
        args, kwargs = arguments(self.handler, self.claimed, self.job)
        if self.handler.runs_in == "thread":
            self.in_thread = True
            try:
                return await executors.threads.run(self.handler.fn, args, kwargs, executors.key(self.lease))
            finally:
                self.in_thread = False
        return await run_inline(self.handler.fn, args, kwargs)

    async def _call_in_process(self, process: ProcessAttempt) -> EncodedResult:
        """Return what the handler returned in its process, where it may have completed its job itself."""
        transaction = self._own_transaction()
        session = transaction.session.id
        found = await process.call(self.handler, self.claimed, self.job, self._progress, self._start_clock, session)
        if found.settled is not None:
            transaction.done = Complete(self.lease, found.data, self.job.result_ttl_ms, found.then), found.settled
        return found

    def _completed(self, result: object) -> Settlement | None:
        reason = self._reason
        if reason in VOID:
            return None
        if reason == "timeout":
            return self._raised(TimedOut("the handler returned after its time-out"))
        if isinstance(result, EncodedResult):
            return Complete(self.lease, result.data, self.job.result_ttl_ms, result.then)
        self.value = result
        return completed(self.job, result, self.handler)

    def _raised(self, error: BaseException) -> Settlement | None:
        undone = self._transaction.undone if self._transaction is not None else None
        attempt = Raising(self.claimed, self.handler, self._reason, self.job.result_ttl_ms, undone)
        settlement, self.error = verdict(attempt, error)
        return settlement

    def _end(self, settlement: Settlement | None) -> None:
        if self._process is not None:
            self._process.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._span is not None:
            self._span.end(settlement, self._reason, settled=self.done is not None)
            self._span = None
        self._ended(self, settlement)
        # Each of these leads back here, and an attempt that is over must not wait for the garbage collector.
        self._task = self.error = None
        self.value = UNSET
        self.job._close()


def _wrapped(around: Middleware, job: Job, step: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
    async def call() -> object:
        outcome = around(job, step)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return call
