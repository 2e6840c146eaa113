"""One process of a pool, as its worker sees it: how it starts, what runs in it, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ...core.sandbox import Sandbox
from ...store.contract import Abort
from ..failure import describe
from ..shortage import CannotStart
from . import frames
from .exit import LEASE_OVER, Evacuated, ProcessDied, Unstartable, how_it_ended
from .handler_output import HandlerOutput
from .job import ProcessJob, RunningJob
from .link import FrameLink
from .log_relay import repeat
from .meter import Meter
from .process_tree import SeenProcess, descendants, kill_all, kill_group, kill_marked, kill_tree
from .spawn import Spawned
from .store_calls import StoreCalls

log = logging.getLogger("holdfast")
LAST_WORDS = 0.5
"""How long to read on what a process said before it died, while another process holds its line open."""

Start = Callable[[frames.Hello], Awaitable[Spawned]]
"""Returns an interpreter for a process that shall be so."""


class Process:
    """A spawned interpreter. Each of its `runs` is answered when the process says so, or when it is gone."""

    def __init__(self, hello: frames.Hello, start: Start, changed: Callable[[Process], None]) -> None:
        self._hello = hello
        self._start = start
        self._changed = changed
        self._child: asyncio.subprocess.Process | None = None
        self._link: FrameLink | None = None
        self._unsent: list[frames.ToProcess] = []
        self._silent = asyncio.Event()
        self._left = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._life = asyncio.get_running_loop().create_task(self._live())
        self._broken: frames.StartFailed | None = None
        self._output = HandlerOutput(self._only_job)
        self._below: list[SeenProcess] = []
        """What it had started when it was told to end."""
        self._meter: Meter | None = None
        self._cut = ""
        """Why its line was cut."""
        self._most = frames.MOST if hello.sandbox is None else frames.ROUND_IT
        """The longest frame that it may send."""
        self._imported: set[frames.HandlerPath] = set()
        self._ending = self._doomed = False
        self._code: int | None = None
        self._spawning = asyncio.Event()
        """Set when there is a process of the system."""
        self.sandbox: Sandbox | None = hello.sandbox
        self.seats: dict[int, int] = {}
        """The units of each job that is here, or on its way."""
        self.runs: dict[int, RunningJob] = {}
        self._store_calls = StoreCalls(self.runs, self._send, self._listen)
        self.started = 0
        """How many jobs it was given."""
        self.usage = frames.Usage(0, 0.0)
        self.ready = False
        self.gone = False
        self.blocker: int | None = None
        """Whose handler holds up the process's event loop; 0 for unknown, `None` while it moves."""
        self.blamed: int | None = None
        """For whom the others had to leave: who held up the loop when the first of them had no time left."""
        self.heard_at = 0.0
        """When it last said anything, by the monotonic clock."""
        self.short_lived = False
        """It died before it could do anything."""

    @property
    def pid(self) -> int | None:
        """The number of the system's process, once there is one."""
        return None if self._child is None else self._child.pid

    @property
    def used(self) -> int:
        """The units that its jobs take."""
        return sum(self.seats.values())

    @property
    def ended_unasked(self) -> bool:
        """True when it is gone, and its worker had not told it to end."""
        return self.gone and not self._ending

    # --- running

    def run(self, number: int, order: ProcessJob) -> asyncio.Future[frames.Returned | frames.Raised]:
        """Return the answer to come. The job is on its way to the process, which may still be starting, or be gone."""
        if self.gone:
            raise self._unstarted() or Evacuated()
        done: asyncio.Future[frames.Returned | frames.Raised] = asyncio.get_running_loop().create_future()
        running = self.runs[number] = RunningJob(order, done)
        self.started += 1
        self._start_meter()
        self._allow(order.handler.max_result)
        session = order.session if self.sandbox is None else None
        self._send(
            frames.RunJob(
                number, order.handler, order.claimed, order.context, order.worker, order.retry, session, order.trace
            )
        )
        if self.sandbox is not None and order.handler in self._imported:
            running.begin()  # as it might keep silent, to have more time
        return done

    def reserve(self, number: int, size: int) -> None:
        """Keep units for a job."""
        self.seats[number] = size
        self._idle.clear()

    def vacate(self, number: int) -> None:
        """Free the units of a job."""
        self.seats.pop(number, None)
        if not self.seats:
            self._idle.set()
            self._changed(self)

    def stop(self, number: int, reason: Abort) -> None:
        """Tell the handler to stop."""
        self._send(frames.Stop(number, reason))

    def _allow(self, result: int) -> None:
        """Allow a result of so many bytes; a sandbox may send no more than the largest of its handlers may."""
        self._most = max(self._most, result + frames.ROUND_IT)
        if self._link is not None:
            self._link.most = self._most

    def _send(self, frame: frames.ToProcess) -> None:
        if self._link is None:
            self._unsent.append(frame)
        else:
            self._link.send(frame)

    def _start_meter(self) -> None:
        if self.sandbox is not None and self.runs and self.pid is not None:
            self._meter = self._meter or Meter(self.pid, self.sandbox, self._hello.mark, self.kill)
            self._meter.start()

    def _heard(self, frame: frames.FromProcess) -> None:
        self.heard_at = time.monotonic()
        if isinstance(frame, frames.Returned | frames.Raised):
            if frame.number not in self.runs:
                return  # it was not asked
            self.usage = frame.usage
            self._output.read()  # what it printed was there before this answer
            if running := self._over(frame.number):
                running.done.set_result(frame)
            self._changed(self)
        elif isinstance(frame, frames.ProgressReport | frames.BlockersQuery):
            self._store_calls.ask(frame)
        elif isinstance(frame, frames.Began):
            running = self.runs.get(frame.number)
            if running and not running.has_begun:
                self._imported.add(running.order.handler)
                running.begin()
                self._start_meter()
        elif isinstance(frame, frames.LoopStuck):
            self._held_up(frame.number)
        elif isinstance(frame, frames.Ready):
            if not self.ready:
                self.ready = True
                self._changed(self)
        elif isinstance(frame, frames.LogLine):
            repeat(frame, self._job(frame.number), sandboxed=self.sandbox is not None)
        elif isinstance(frame, frames.StartFailed):
            self._broken = frame
        elif isinstance(frame, frames.Left):
            self._left.set()

    def _job(self, number: int) -> ProcessJob | None:
        return self.runs[number].order if number in self.runs else None

    def _only_job(self) -> ProcessJob | None:
        """Return the job that runs in it, if there is only one."""
        return next(iter(self.runs.values())).order if len(self.runs) == 1 else None

    def _held_up(self, by: int | None) -> None:
        """Note that its event loop does not move, or moves again."""
        self.blocker = by
        if by is not None and len(self.runs) > 1:
            lease = self.runs[by].order.claimed.lease if by in self.runs else None
            whose = f"{lease.queue}/{lease.id}" if lease else "a handler"
            log.warning(
                "loop_blocked: process %s: %s blocks its event loop, so that others in it cannot go on: make it a "
                "`def` handler, or give it a process to itself", self.pid, whose,
            )  # fmt: skip

    def _over(self, number: int) -> RunningJob | None:
        running = self.runs.pop(number, None)
        if self._meter is not None and not self.runs:
            self._meter.rest()
        return running if running and not running.done.done() else None

    def _listen(self, wanted: bool) -> None:
        if self._link is not None:
            self._link.listen(wanted)

    # --- living

    async def _live(self) -> None:
        """Live from its start to its end."""
        code: int | None = None
        try:
            code = await self._spawned()
        except Exception as error:
            self._broken = frames.StartFailed(describe(error), trouble=True)
        finally:
            self._end_of(code)

    async def _spawned(self) -> int:
        child, ours, output = await self._start(self._hello)
        self._child = child
        self._output.open(output)
        self._spawning.set()
        if self._doomed:
            kill_tree(child.pid, self._hello.mark)
        ours.setblocking(False)
        link = FrameLink(frames.from_process, self._heard, self._lost, self._most)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
        self._link = link
        for frame in (self._hello, *self._unsent):
            link.send(frame)
        self._start_meter()
        code = await child.wait()
        with suppress(TimeoutError):  # another process holds its line, and will be killed below
            await asyncio.wait_for(self._silent.wait(), LAST_WORDS)
        link.close()
        self._output.close()
        kill_group(child.pid, signal.SIGKILL)
        kill_all(self._below)
        if self._hello.mark:
            kill_marked(self._hello.mark)
        return code

    def _lost(self, error: Exception | None) -> None:
        self._silent.set()
        if isinstance(error, ValueError):
            self._cut_off(f"it does not keep to the protocol: {error}")
        elif not self._ending:  # it is dead, or will never be heard again
            asyncio.get_running_loop().call_later(LAST_WORDS, self._cut_off, "it closed the line to its worker")

    def _cut_off(self, why: str) -> None:
        """End a process that does not answer."""
        if self.pid is not None and not self.gone and not self._cut:
            log.error("process_cut_off: process %d is ended: %s", self.pid, why)
            self._cut = why
            kill_tree(self.pid, self._hello.mark)

    def _end_of(self, code: int | None) -> None:
        self.gone = True
        self._code = code
        if self._meter is not None:
            self._meter.stop()
        self.short_lived = not self.ready and not self._ending
        company = len(self.runs)
        for number in list(self.runs):
            if running := self._over(number):
                running.done.set_exception(self._why(number, running, code, company))
        self._changed(self)

    @property
    def why_unstarted(self) -> str:
        """What kept it from starting."""
        return str(self._unstarted() or "it ended before it was ready")

    def _unstarted(self) -> Exception | None:
        """Return why it never began to work: its worker's trouble, or, in a sandbox, perhaps its task's."""
        if self._broken is not None:
            error = self._broken.error
            told = f"its process could not start: {error.type}: {error.message}"
            return CannotStart(told) if self._broken.trouble else Unstartable(error)
        if self.short_lived and self.sandbox is None and self._code is not None and self._code != LEASE_OVER:
            return CannotStart(f"its process ended before it was ready: {how_it_ended(self._code)}")
        return None

    def _why(self, number: int, running: RunningJob, code: int | None, company: int) -> Exception:
        if (unstarted := self._unstarted()) is not None:
            return unstarted
        times = running.order.claimed.counters.stalls + 1
        if self.blamed == 0 and code is not None:  # it is unknown whose fault it was: all are suspect, as after a crash
            return ProcessDied(code, times, company=company, why="something in it held up its event loop")
        if self._ending or code == LEASE_OVER or code is None:
            return Evacuated(is_to_blame=number == self.blamed)
        over = self._meter.why(code) if self._meter is not None else ""
        memory = self.sandbox.memory if self.sandbox is not None else None
        return ProcessDied(code, times, company=company, why=over or self._cut, is_over_limit=bool(over), memory=memory)

    # --- ending

    def leave(self, grace: float) -> asyncio.Task[None]:
        """Return the task that ends it once its jobs are done: what it has open is closed first."""
        return asyncio.get_running_loop().create_task(self._leave(grace))

    async def _leave(self, grace: float) -> None:
        await self._idle.wait()
        if not self.gone:
            self._ending = True
            self._send(frames.Leave())
            await _within(grace, self._left, self._silent)
            await self.end(grace)

    async def end(self, grace: float) -> None:
        """End it with all that it started, by SIGTERM, and after `grace` seconds by SIGKILL."""
        self._ending = True
        waiting = asyncio.ensure_future(self._spawning.wait())
        await asyncio.wait([waiting, self._life], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        child = self._child
        if child is None or self.gone:
            return
        self._below = descendants(child.pid)
        kill_group(child.pid, signal.SIGTERM)
        await asyncio.wait([self._life], timeout=grace)
        if not self.gone:
            kill_tree(child.pid, self._hello.mark)
        await asyncio.wait([self._life])

    def kill(self) -> None:
        """Kill it now, with all that it started."""
        self._ending = self._doomed = True
        if self.pid is not None and not self.gone:
            kill_tree(self.pid, self._hello.mark)


async def _within(seconds: float, *events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waiting:
        wait.cancel()
