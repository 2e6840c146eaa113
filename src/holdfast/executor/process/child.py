"""The program of a process: `python -m holdfast.executor.process.child LINE DEADLINE [MODULE ...]`, two
inherited descriptors, and what to import while there is nothing to do.

It runs the jobs that its worker sends, `async def` handlers in its event loop and `def` ones in threads, until
it is told to leave, its worker is gone, or the worker's lease is over.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any, Literal, NoReturn, cast

from ...continuation import Blocker
from ...core.duration import instant_ms, to_ms
from ...core.job import Progress
from ...core.policy import Cause
from ...core.transition import Reply
from ...errors import Aborted, ConfigError, Snooze, StoreError
from ...job import Desk, Job, _current
from ...registry import load
from ...store.contract import Lease
from ...sync import Openable
from ...task import Task
from ..call import Callee, arguments, blocker, completed, found
from ..failure import describe, is_permanent, kinds
from ..inline import run_inline
from ..thread import ThreadExecutor, called
from ..trouble import CannotStart, is_want
from . import wire
from .deadline import watch
from .ending import LEASE_OVER, WORKER_GONE
from .holdup import watch_loop
from .kernel import bind_to_parent, resident, resident_bytes
from .outbox import Outbox
from .said import MOST_LINE, MOST_NAME
from .tree import descendants, kill_all

MOST_THREADS = 100
Explain = Callable[[BaseException], str]
"""Says what a sandbox has to do with an error."""
log = logging.getLogger("holdfast")


class Shift:
    """The jobs of one process, from its first to its last."""

    def __init__(
        self, say: Callable[[wire.FromProcess], None], explain: Explain | None, memory: int,
        end_programs: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._say = say
        self._end_programs = end_programs
        self._explain: Explain = explain or (lambda error: "")
        self._sandboxed = explain is not None
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadExecutor(MOST_THREADS)
        self._memory = memory
        self._callees: dict[wire.Handler, Callee] = {}
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

    def heard(self, frame: wire.ToProcess) -> None:
        """What the worker says is done, or begun."""
        if isinstance(frame, wire.Run):
            self._begin(frame)
        elif isinstance(frame, wire.Stop):
            self._stop(frame)
        elif isinstance(frame, wire.Heard):
            self._answer(frame.call, Reply(frame.reply))
        elif isinstance(frame, wire.Waited):
            self._answer(frame.call, frame.blockers)
        elif isinstance(frame, wire.Leave):
            self.left.set()

    def _begin(self, frame: wire.Run) -> None:
        async def report(lease: Lease, progress: Progress | None, checkpoint: bytes | None) -> Reply:
            reply: Reply = await self._ask(lambda call: wire.Report(call, frame.number, progress, checkpoint))
            return reply

        async def waited_for(lease: Lease) -> list[Blocker]:
            records = await self._ask(lambda call: wire.Blockers(call, frame.number))
            if records is None:
                named = f"{lease.queue}/{lease.id}"  # and not the job, which would hold itself
                raise StoreError(f"what {named} waited for could not be read; the worker's log says why")
            return [blocker(self._callees[frame.handler], record) for record in records]

        job = Job(frame.claimed, report, _no_desk, waited_for)
        if frame.context:
            job.context.update(frame.context)
        self._jobs[frame.number] = job
        task = self._loop.create_task(self._run(frame, job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, frame: wire.Run, job: Job) -> None:
        """However the handler ends, the worker hears of it once."""
        _current.set(job)
        try:
            callee = self._callees.get(frame.handler) or await self._found(frame)
            self._say(wire.Began(frame.number))
            args, kwargs = arguments(callee, frame.claimed, job)
            if inspect.iscoroutinefunction(callee.fn):
                self._coroutines[frame.number] = cast(Any, asyncio.current_task())
                ended = self._returned(frame, job, callee, await run_inline(callee.fn, args, kwargs))
            else:
                await self._threads.run(self._run_here, (frame, job, callee, args, kwargs), {})
                return
        except BaseException as error:
            ended = self._raised(frame.number, job, error)
        self._tell(frame, job, ended)

    def _run_here(
        self, frame: wire.Run, job: Job, callee: Callee, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """In a thread: what a `def` handler has done is told though another may hold up the loop."""
        try:
            ended = self._returned(frame, job, callee, called(callee.fn, args, kwargs))
        except BaseException as error:
            ended = self._raised(frame.number, job, error)
        self._tell(frame, job, ended)

    def _returned(self, frame: wire.Run, job: Job, callee: Callee, result: Any) -> wire.FromProcess:
        done = completed(job, result, callee)
        return wire.Returned(frame.number, done.result, done.result_ttl_ms, self._usage(), done.then)

    def blocker(self) -> int:
        """Return whose handler is in the loop at this moment, asked from another thread; 0 where nobody knows."""
        task = asyncio.current_task(self._loop)
        return next((number for number, each in list(self._coroutines.items()) if each is task), 0)

    def _tell(self, frame: wire.Run, job: Job, ended: wire.FromProcess) -> None:
        self._jobs.pop(frame.number, None)
        self._coroutines.pop(frame.number, None)
        if not self._jobs:
            self._end_programs()
        try:
            self._say(ended)
        except MemoryError as error:  # for the result, which a sandbox had memory to make but not to send
            self._say(self._raised(frame.number, job, error))

    async def _found(self, frame: wire.Run) -> Callee:
        """Return what runs a job. What the machine lacks to import it is not the handler's fault, as is all else."""
        try:
            return await self._find(frame)
        except Exception as error:
            if is_want(error):
                raise CannotStart(f"its module could not be imported: {error}") from error
            raise

    async def _find(self, frame: wire.Run) -> Callee:
        """Return what runs a job, its app open. Whoever comes meanwhile waits."""
        async with self._finding:
            if (callee := self._callees.get(frame.handler)) is None:
                callee = found(frame.handler)
                if isinstance(callee, Task) and (app := callee.app) is not None and app.loop is None:
                    await self._open(app)
                self._callees[frame.handler] = callee
        return callee

    async def _open(self, app: Openable) -> None:
        """Handlers can use their app as in the worker itself; where the store is out of reach, `app.sync` at least."""
        if not self._sandboxed and app.store.shared:
            try:
                await app.open()
                return
            except StoreError as error:
                log.warning("the app could not be opened in this process, so handlers cannot use it: %s", error)
        app.loop = self._loop

    def _raised(self, number: int, job: Job, error: BaseException) -> wire.Raised:
        usage = self._usage()
        if isinstance(error, asyncio.CancelledError | Aborted):
            told = error if isinstance(error, Aborted) else Aborted(job.abort_reason or "cancelled")
            return wire.Raised(number, "aborted", describe(told), job.result_ttl_ms, usage)
        if isinstance(error, Snooze):
            try:
                at = None if error.at is None else instant_ms(error.at, "Snooze(at)")
                delay = None if error.after is None else to_ms(error.after, "Snooze(after)")
                return wire.Raised(number, "snooze", describe(error), job.result_ttl_ms, usage, at, delay)
            except ConfigError as wrong:
                error = wrong
        if isinstance(error, CannotStart) and not self._sandboxed:  # what a sandbox lacks is what its task gave it
            return wire.Raised(number, "trouble", describe(error), job.result_ttl_ms, usage)
        permanent = is_permanent(error)
        record = describe(error, Cause.PERMANENT if permanent else Cause.FAILURE, hint=self._explain(error))
        word: Literal["permanent", "failure"] = "permanent" if permanent else "failure"
        return wire.Raised(number, word, record, job.result_ttl_ms, usage, kinds=kinds(error))

    def _usage(self) -> wire.Usage:
        return wire.Usage(resident_bytes(self._memory), time.process_time())

    def _stop(self, frame: wire.Stop) -> None:
        """The handler's signal fires; past its time an `async def` one is cancelled."""
        job, task = self._jobs.get(frame.number), self._coroutines.get(frame.number)
        if job is not None:
            job.signal.fire(frame.reason)
        if frame.reason == "timeout" and task is not None:
            task.cancel()

    async def _ask(self, question: Callable[[int], wire.FromProcess]) -> Any:
        """Return what the worker answers. A `def` handler's thread asks through this process's loop."""
        if asyncio.get_running_loop() is not self._loop:
            asked = asyncio.run_coroutine_threadsafe(self._ask(question), self._loop)
            return await asyncio.wrap_future(asked)
        call = next(self._calls)
        answer = self._answers[call] = self._loop.create_future()
        self._say(question(call))
        return await answer

    def _answer(self, call: int, found: Any) -> None:
        if (answer := self._answers.pop(call, None)) is not None and not answer.done():
            answer.set_result(found)


def _no_desk() -> Desk:
    raise ConfigError("job.prepare() and job.complete() work in `async def` handlers with executor='inline' alone")


class _Forward(logging.Handler):
    """Log records become lines of the worker's log."""

    def __init__(self, say: Callable[[wire.FromProcess], None]) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        try:
            job = _current.get()
            where = f" [{job.queue}/{job.id}]" if job is not None else ""
            message = record.getMessage()
            trace = self.format(record)[len(message) :].strip("\n")
            said = wire.Said(record.name[:MOST_NAME], record.levelno, message[:MOST_LINE] + where, trace[-MOST_LINE:])
            self._say(said)
        except Exception:  # as in any handler of `logging`: a bad record is told on stderr, and ends nobody
            self.handleError(record)


async def serve(line: socket.socket, deadline: int, hello: wire.Hello, explain: Explain | None, memory: int) -> None:
    """Jobs run until the worker says that no more follow."""
    loop = asyncio.get_running_loop()

    say = Outbox(line).send
    programs = hello.sandbox is not None and hello.sandbox.subprocess
    shift = Shift(say, explain, memory, _end_programs if programs else lambda: None)
    link = wire.Link(wire.to_process, shift.heard, lambda error: _end(WORKER_GONE, programs=programs))
    watch(deadline, lambda: shift.is_at_work, lambda: _end(LEASE_OVER, programs=programs))
    logging.basicConfig(level=hello.level, handlers=[_Forward(say)], force=True)
    async with AsyncExitStack() as resources:
        try:
            for place in hello.resources:
                resource = load(place)
                await resource.open()
                resources.push_async_callback(resource.close)
        except Exception as error:
            say(wire.Broken(describe(error), trouble=True))
            return
        line.setblocking(False)
        await loop.create_connection(lambda: link, sock=line)
        say(wire.Ready())
        watch_loop(loop, lambda: shift.is_at_work, shift.blocker, say)
        await shift.left.wait()
    say(wire.Left())
    await asyncio.Event().wait()  # the worker ends what is left of this process, and then the process


def _end_programs() -> None:
    from ..sandbox.enter import end_programs

    end_programs()


def _end(code: int, *, programs: bool) -> NoReturn:
    """This process is gone, and what it started with it: also a sandbox's programs, though it cannot list them."""
    kill_all(descendants(os.getpid()))
    if programs:
        from ..sandbox.enter import kill_others

        kill_others()
    os._exit(code)


def _receive(line: socket.socket) -> wire.Hello:
    """Return the first frame, with no event loop yet: a sandbox must be closed before there is a second thread."""
    (length,) = wire.LENGTH.unpack(_exactly(line, wire.LENGTH.size))
    hello = wire.to_process(_exactly(line, length))
    assert isinstance(hello, wire.Hello)
    return hello


def _exactly(line: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = line.recv(count - len(parts))
        if not part:
            raise SystemExit(WORKER_GONE)
        parts += part
    return parts


def _import_ahead(line: socket.socket) -> None:
    """While nothing is to be done, what nearly every task's module imports is imported. None of it is the user's."""
    if not select.select([line], [], [], 0)[0]:
        for name in ("holdfast.app", "holdfast.executor.sandbox.enter", *sys.argv[3:]):
            import_module(name)


def main() -> None:
    """Run as the program of a process."""
    line, deadline = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for fd in (line.fileno(), deadline):
        os.set_inheritable(fd, False)  # a program that a handler starts has no business with them
    bind_to_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the worker's to handle
    memory = resident()
    _import_ahead(line)
    hello = _receive(line)
    sys.path[:] = hello.path
    os.environ.pop("PYTHONPATH", None)
    if hello.pythonpath is not None:
        os.environ["PYTHONPATH"] = hello.pythonpath
    explain: Explain | None = None
    if hello.sandbox is not None:
        from ..sandbox.enter import enter

        try:
            explain = enter(hello.sandbox, hello.mark)
        except Exception as error:
            line.sendall(wire.packed(wire.Broken(describe(error), trouble=is_want(error))))
            return
    asyncio.run(serve(line, deadline, hello, explain, memory))


if __name__ == "__main__":
    from holdfast.executor.process import child  # under its own name, by which tracebacks know whose frames are ours

    child.main()
