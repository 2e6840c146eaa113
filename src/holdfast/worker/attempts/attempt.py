"""One attempt: a claimed job, its handler, and how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from ...app.task import AnyTask
from ...executor import Executors
from ...executor.at_work import at_work
from ...executor.call import arguments, completed, is_awaitable
from ...executor.handler_transaction import VOID, HandlerTransaction
from ...executor.injection import call_handler, refuse_overridden
from ...handler.continuation import Continued
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


class Attempt(msgspec.Struct, eq=False):
    """A claimed job while its handler runs."""

    claimed: Claimed
    handler: AnyTask
    _services: HandlerServices
    _progress: Report
    _ended: Ended
    job: Job = None  # type: ignore[assignment]  # made with the attempt, of what it was given
    _process: ProcessAttempt | None = None
    _killed: bool = False
    _reason: Abort | None = None
    """Why it was told to stop, by the heaviest reason so far; the handler's signal keeps to the first."""
    _transaction: HandlerTransaction | None = None
    _task: asyncio.Task[None] | None = None
    """Its own task; `None` while it shares one with others, since then it has not begun, or has not waited yet."""
    _cancelled: bool = False
    """It was cancelled before it had a task of its own, or before that had begun."""
    _span: traces.ProcessSpan | None = None
    """Its span, if it is recorded."""
    _timer: asyncio.TimerHandle | None = None
    in_thread: bool = False
    late_since: float | None = None
    """When its time was over, by the clock of its loop."""
    error: BaseException | None = None
    """What the handler raised, for the hooks that are told of its end."""
    value: object = UNSET
    """What it returned, if that was in this process."""
    began: float | None = None
    """When its handler was started, by `time.monotonic`."""
    ended: float | None = None
    """When it returned, where others of its task ran before that is passed on."""

    def __post_init__(self) -> None:
        services = self._services
        self.job = Job(self.claimed, self._progress, self._own_transaction, services, services.blockers)

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
        return None if self.began is None else (self.ended or time.monotonic()) - self.began

    @property
    def done(self) -> tuple[Complete, Settled] | None:
        """How the handler completed its job itself, in a transaction of its own."""
        return None if self._transaction is None else self._transaction.done

    def _own_transaction(self) -> HandlerTransaction:
        if self._transaction is None:
            self._transaction = self._services.transaction(self.handler)
        return self._transaction

    def reserve(self, executors: Executors) -> bool:
        """Reserve a process for a handler that needs one; hand the job back where none has room (False)."""
        if self.handler.in_process and not executors.in_place:
            seat = executors.pool.reserve(need_of(self.handler))
            if seat is None:
                log.error("pool_full: %r: no process has room for it, so it is handed back", self.job)
                self._end(Released(self.lease))
                return False
            self._process = ProcessAttempt(executors, seat)
        return True

    def begin_alone(self, loop: asyncio.AbstractEventLoop, run: Coroutine[Any, Any, None]) -> None:
        """Run in a task of its own."""
        task = loop.create_task(run)
        if self.began is None:
            self._task = task
        elif not task.done():  # the loop has eager tasks
            self.keep_task(task)

    def keep_task(self, task: asyncio.Task[None]) -> None:
        """Note that the handler waits, in a task that is its own from now on: its time-out begins to count."""
        assert self.began is not None
        self._task = task
        self._start_timer(time.monotonic() - self.began)
        if self._cancelled:
            task.cancel()

    def _start_timer(self, since: float = 0.0) -> None:
        """Give the handler its time-out, of which so many seconds are over."""
        if self._timer is not None:
            self._timer.cancel()
        if self.claimed.timeout_ms is not None:
            seconds = self.claimed.timeout_ms / 1000 - since
            if self._process is not None and not self._process.has_begun:
                seconds += STARTING
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort, "timeout")

    def _start_clock(self) -> None:
        """Have the handler begin now, as its process is ready for it."""
        self.began = time.monotonic()
        self._start_timer()

    def _cancel(self) -> None:
        """Cancel the handler; before it has begun, or has waited, that is noted, as its task may be that of others."""
        if self._task is None or self.began is None:
            self._cancelled = True
        else:
            self._task.cancel()

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
        elif (reason in VOID or reason == "timeout") and not self.in_thread:
            self._cancel()

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
        else:
            self._cancel()

    def abandon(self) -> None:
        """Hand the job back, whatever its handler still does; one that has not begun never will."""
        self._cancelled = self._cancelled or self.began is None
        self._end(Released(self.lease))

    def abandon_as_timed_out(self) -> None:
        """Settle the job as timed out, though its thread still runs: the worker will end, and the thread with it."""
        self._end(self._raised(TimedOut("the handler did not return after its time-out, and its worker ended")))

    def keep_present(self, executors: Executors) -> None:
        """Mark the id as running in this process until its coroutine ends; threads and processes have their marks."""
        if self._task is not None and self._process is None and not self.in_thread:
            at_work.watch(executors.key(self.lease), self._task)

    async def run(self, middleware: Sequence[Middleware], executors: Executors, tracing: traces.Tracing | None) -> None:
        """Run the handler; however it ends, the attempt ends exactly once. `tracing` makes spans, if they are made."""
        claimed, handler, job = self.claimed, self.handler, self.job
        _current.set(job)
        self.began = time.monotonic()
        if self._task is not None:
            self._start_timer()
        if self._span is None and (tracing is not None or claimed.envelope.headers):
            self._span = traces.process(claimed, tracing)
        try:
            if self._cancelled:
                raise asyncio.CancelledError
            if self._span is not None and self._span.waits:
                await self._services.link_blockers(self._span, self.lease)
            if handler.runs_in == "inline" and not middleware:
                args, kwargs = arguments(handler, claimed, job)
                if handler.signature.supplied:
                    result: object = await call_handler(handler, job, args, kwargs)
                else:
                    result = handler.fn(*args, **kwargs)
                    if is_awaitable(result):
                        result = await result
            else:
                result = await self._call(middleware, executors)
            settlement = await self._returned(result)
        except BaseException as error:
            settlement = await self._undone(error)
        self._end(settlement)

    async def finish(self, outcome: Awaitable[object]) -> None:
        """Go on with an attempt whose handler waits for something, or has returned something unusual."""
        try:
            settlement = await self._returned(await outcome)
        except BaseException as error:
            settlement = await self._undone(error)
        self._end(settlement)

    async def end_raised(self, error: BaseException) -> None:
        """End an attempt whose handler raised before it waited for anything."""
        self._end(await self._undone(error))

    def end_span(self, settlement: Settlement | None) -> None:
        """End the span, which is recorded, of an attempt that ends so."""
        assert self._span is not None
        self._span.end(settlement, self._reason, settled=self.done is not None)
        self._span = None

    async def _returned(self, result: object) -> Settlement | None:
        """Return the settlement for what the handler returned."""
        if self._transaction is not None:
            self._transaction.refuse_unfinished(self.job)
        if type(result) is Continued:
            await result.pass_producers()
        return self.done[0] if self.done else self._completed(result)

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
        in_thread = partial(self._in_thread, executors) if self.handler.runs_in == "thread" else None
        return await call_handler(self.handler, self.job, args, kwargs, in_thread)

    async def _in_thread(
        self, executors: Executors, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        self.in_thread = True
        try:
            return await executors.threads.run(fn, args, kwargs, executors.key(self.lease))
        finally:
            self.in_thread = False

    async def _call_in_process(self, process: ProcessAttempt) -> EncodedResult:
        """Return what the handler returned in its process, where it may have completed its job itself."""
        refuse_overridden(self.handler, self.job)
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
            self.end_span(settlement)
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
