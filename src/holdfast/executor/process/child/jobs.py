"""The jobs in a process: `async def` handlers run in its event loop, `def` ones in threads, and each ends once."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, cast

from ....app.home import Openable
from ....app.task import Task
from ....core.duration import instant_ms, to_ms
from ....core.job import Progress
from ....core.policy import Cause
from ....core.transition import Reply
from ....errors import Aborted, ConfigError, RetryAt, Snooze, StoreError
from ....handler.continuation import Blocker, Continued
from ....handler.job import Job, _current
from ....store.contract import Lease
from ....telemetry import traces
from ...call import Callee, arguments, blocker, completed, found, pass_producers
from ...failure import RetryTime, describe, is_permanent, kinds, retry_time
from ...injection import call_handler, has_loop_part, in_thread_alone
from ...shortage import CannotStart, is_shortage
from ...thread import ThreadExecutor, called
from .. import frames
from ..kernel import resident_bytes
from .transactions import ChildTransactions

MOST_THREADS = 100
Explain = Callable[[BaseException], str]
"""Says what a sandbox has to do with an error."""
log = logging.getLogger("holdfast")


class ChildJobs:
    """Run the jobs of one process, from its first to its last."""

    def __init__(
        self, send: Callable[[frames.FromProcess], None], explain: Explain | None, memory: int,
        end_programs: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._send = send
        self._end_programs = end_programs
        self._explain: Explain = explain or (lambda error: "")
        self._sandboxed = explain is not None
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadExecutor(MOST_THREADS)
        self._memory = memory
        self._callees: dict[frames.HandlerPath, Callee] = {}
        self._transactions = ChildTransactions(self._loop)
        self._finding = asyncio.Lock()
        self._jobs: dict[int, Job] = {}
        self._coroutines: dict[int, asyncio.Task[None]] = {}
        """Those of the running handlers that can be cancelled."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls = itertools.count()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.left = asyncio.Event()

    @property
    def is_at_work(self) -> bool:
        """True while a handler runs."""
        return bool(self._jobs)

    def heard(self, frame: frames.ToProcess) -> None:
        """Do what the worker says."""
        if isinstance(frame, frames.RunJob):
            self._begin(frame)
        elif isinstance(frame, frames.Stop):
            self._stop(frame)
        elif isinstance(frame, frames.ProgressReply):
            self._answer(frame.call, Reply(frame.reply))
        elif isinstance(frame, frames.BlockersReply):
            self._answer(frame.call, frame.blockers)
        elif isinstance(frame, frames.Leave):
            self.left.set()

    def _begin(self, frame: frames.RunJob) -> None:
        async def report(lease: Lease, progress: Progress | None, checkpoint: bytes | None) -> Reply:
            reply: Reply = await self._ask(lambda call: frames.ProgressReport(call, frame.number, progress, checkpoint))
            return reply

        async def waited_for(lease: Lease) -> list[Blocker]:
            records = await self._ask(lambda call: frames.BlockersQuery(call, frame.number))
            if records is None:
                named = f"{lease.queue}/{lease.id}"  # and not the job, which would hold itself
                raise StoreError(f"what {named} waited for could not be read; the worker's log says why")
            return [blocker(self._callees[frame.handler], record) for record in records]

        job = Job(
            frame.claimed,
            report,
            lambda: self._transactions.of(frame, self._callees.get(frame.handler)),
            frame,
            waited_for,
        )
        if frame.context:
            job.context.update(frame.context)
        self._jobs[frame.number] = job
        task = self._loop.create_task(self._run(frame, job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, frame: frames.RunJob, job: Job) -> None:
        """Run the handler; however it ends, tell the worker once."""
        _current.set(job)
        try:
            callee = self._callees.get(frame.handler) or await self._found(frame)
            if frame.trace is not None:
                traces.attach(frame.trace)
            self._send(frames.Began(frame.number))
            args, kwargs = arguments(callee, frame.claimed, job)
            if inspect.iscoroutinefunction(callee.fn):
                self._coroutines[frame.number] = cast(Any, asyncio.current_task())
                result = await pass_producers(await call_handler(callee, job, args, kwargs))
                ended = self._returned(frame, job, callee, result)
            elif has_loop_part(callee):  # which must be closed before the worker hears that the job is over
                result = await pass_producers(await call_handler(callee, job, args, kwargs, self._threads.run))
                ended = self._returned(frame, job, callee, result)
            else:
                fn = in_thread_alone(callee, job)
                await self._threads.run(self._run_here, (frame, job, callee, fn, args, kwargs), {})
                return
        except BaseException as error:
            await self._transactions.roll_back(frame.number, error)
            ended = self._raised(frame.number, job, error)
        self._tell(frame, job, ended)

    def _run_here(
        self,
        frame: frames.RunJob,
        job: Job,
        callee: Callee,
        fn: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Run a `def` handler in this thread, and tell the worker from here, as another may hold up the loop."""
        try:
            result = called(fn, args, kwargs)
            if isinstance(result, Continued):
                asyncio.run_coroutine_threadsafe(pass_producers(result), self._loop).result()
            ended = self._returned(frame, job, callee, result)
        except BaseException as error:
            if self._transactions.has(frame.number):
                asyncio.run_coroutine_threadsafe(self._transactions.roll_back(frame.number, error), self._loop).result()
            ended = self._raised(frame.number, job, error)
        self._tell(frame, job, ended)

    def _returned(self, frame: frames.RunJob, job: Job, callee: Callee, result: object) -> frames.FromProcess:
        done, settled = self._transactions.done(frame.number, job) or (completed(job, result, callee), None)
        return frames.Returned(frame.number, done.result, done.result_ttl_ms, self._usage(), done.then, settled)

    def blocker(self) -> int:
        """Return the number of the job whose handler is in the loop now, asked from another thread; 0 for unknown."""
        task = asyncio.current_task(self._loop)
        found = next((number for number, each in list(self._coroutines.items()) if each is task), 0)
        if found or task is None or not hasattr(task, "get_context"):  # which Python has from 3.12 on
            return found
        job = task.get_context().get(_current)  # of a handler that began a task of its own
        return next((number for number, each in list(self._jobs.items()) if each is job), 0)

    def current(self) -> int:
        """Return the number of the job whose handler asks, in whatever thread; 0 for none."""
        job = _current.get()
        return 0 if job is None else next((number for number, each in list(self._jobs.items()) if each is job), 0)

    def _tell(self, frame: frames.RunJob, job: Job, ended: frames.FromProcess) -> None:
        _flush_output()  # before the worker hears that the job is over: what was printed is the job's
        self._jobs.pop(frame.number, None)
        self._coroutines.pop(frame.number, None)
        self._transactions.pop(frame.number)
        if not self._jobs:
            self._end_programs()
        try:
            self._send(ended)
        except MemoryError as error:  # for the result, which a sandbox had memory to make but not to send
            self._send(self._raised(frame.number, job, error))

    async def _found(self, frame: frames.RunJob) -> Callee:
        """Return what runs a job. What the machine lacks to import it is not the handler's fault, as is all else."""
        try:
            return await self._find(frame)
        except Exception as error:
            if is_shortage(error):
                raise CannotStart(f"its module could not be imported: {error}") from error
            raise

    async def _find(self, frame: frames.RunJob) -> Callee:
        """Return what runs a job, with its app open. Jobs that come meanwhile wait."""
        async with self._finding:
            if (callee := self._callees.get(frame.handler)) is None:
                callee = found(frame.handler)
                if isinstance(callee, Task) and (app := callee.app) is not None and app.loop is None:
                    await self._open(app)
                self._callees[frame.handler] = callee
        return callee

    async def _open(self, app: Openable) -> None:
        """Open the app for handlers, as in the worker itself; where the store is out of reach, for `app.sync` alone."""
        if not self._sandboxed and app.store.shared:
            try:
                await app.open()
                return
            except StoreError as error:
                log.warning(
                    "app_not_opened: the app could not be opened in this process, so handlers cannot use it: %s", error
                )
                self._transactions.out_of_reach[id(app)] = str(error)
        app.loop = self._loop

    def _raised(self, number: int, job: Job, error: BaseException) -> frames.FromProcess:
        usage = self._usage()
        if (stands := self._transactions.stands(number, job, error)) is not None:
            done, settled = stands
            return frames.Returned(number, done.result, done.result_ttl_ms, usage, done.then, settled)
        if isinstance(error, asyncio.CancelledError | Aborted):
            told = error if isinstance(error, Aborted) else Aborted(job.abort_reason or "cancelled")
            return frames.Raised(number, "aborted", describe(told), job.result_ttl_ms, usage)
        if isinstance(error, Snooze):
            try:
                at = None if error.at is None else instant_ms(error.at, "Snooze(at)")
                delay = None if error.after is None else to_ms(error.after, "Snooze(after)")
                return frames.Raised(number, "snooze", describe(error), job.result_ttl_ms, usage, at, delay)
            except ConfigError as wrong:
                error = wrong
        if isinstance(error, CannotStart) and not self._sandboxed:  # what a sandbox lacks is what its task gave it
            return frames.Raised(number, "trouble", describe(error), job.result_ttl_ms, usage)
        return self._failed(number, job, error, usage)

    def _failed(self, number: int, job: Job, error: BaseException, usage: frames.Usage) -> frames.Raised:
        try:
            own, failure = retry_time(error), error.error if isinstance(error, RetryAt) else error
        except ConfigError as wrong:  # a handler that gave no time
            own, error, failure = RetryTime(), wrong, wrong
        permanent = is_permanent(failure) and not isinstance(error, RetryAt)
        record = describe(failure, Cause.PERMANENT if permanent else Cause.FAILURE, hint=self._explain(failure))
        word: Literal["permanent", "retry_at", "store", "failure"] = "permanent" if permanent else "failure"
        if isinstance(error, RetryAt):
            word = "retry_at"
        elif not permanent and not self._sandboxed and self._transactions.is_trouble(number, error):
            word = "store"
        return frames.Raised(
            number, word, record, job.result_ttl_ms, usage, own.at_ms, own.delay_ms, kinds=kinds(failure)
        )

    def _usage(self) -> frames.Usage:
        return frames.Usage(resident_bytes(self._memory), time.process_time())

    def _stop(self, frame: frames.Stop) -> None:
        """Tell the handler to stop; past its time-out, cancel an `async def` one."""
        job, task = self._jobs.get(frame.number), self._coroutines.get(frame.number)
        if job is not None:
            job.signal.fire(frame.reason)
        if frame.reason == "timeout":
            self._send(frames.Awake())
            if task is not None:
                task.cancel()

    async def _ask(self, question: Callable[[int], frames.FromProcess]) -> Any:
        """Return what the worker answers. A `def` handler's thread asks through this process's loop."""
        if asyncio.get_running_loop() is not self._loop:
            asked = asyncio.run_coroutine_threadsafe(self._ask(question), self._loop)
            return await asyncio.wrap_future(asked)
        call = next(self._calls)
        answer = self._answers[call] = self._loop.create_future()
        self._send(question(call))
        return await answer

    def _answer(self, call: int, found: Any) -> None:
        if (answer := self._answers.pop(call, None)) is not None and not answer.done():
            answer.set_result(found)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a handler may have closed it, or put something else in its place
            stream.flush()
