"""The pool: processes that run jobs, started when needed, replaced when they die, hang, age or grow."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence

import msgspec

from ...core.sandbox import Sandbox
from ...guard.page import now
from ...store.contract import Abort
from . import frames
from .deadline import Deadline
from .job import ProcessJob
from .kernel import resident_of
from .process import Process, Start
from .spawn import Spares, Spawned, kind_of, search_path, spawn
from .units import PoolUnits, UnitNeed

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
SILENT = 5.0
"""A process stands still that has not said for so many seconds that it heard of the end of a handler's time."""


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool is kept. Times are in seconds."""

    count: int
    recycle_jobs: int | None = None
    """A process is replaced after so many jobs."""
    recycle_memory: int | None = None
    """A process is replaced when it holds more bytes than this after a job."""
    drain: float = 30.0
    """How long the healthy jobs of a process have, when another in it is past its time."""
    grace: float = 5.0
    """How long a handler past its time has, told to stop and then terminated, before it is killed."""


def _nobody(how: str, cause: str) -> None:
    """Tell nobody."""


class ProcessPool:
    """Run jobs in processes. `changed` is called when there may be more room."""

    def __init__(
        self,
        options: PoolOptions,
        resources: Sequence[str],
        changed: Callable[[], None],
        make: Callable[[frames.Hello, Start, Callable[[Process], None]], Process] = Process,
        told: Callable[[str, str], None] | None = None,
    ) -> None:
        self._options = options
        self._make = make
        self._resources = list(resources)
        self._changed = changed
        self._told = told or _nobody
        """Hears how each process is replaced, and why: see `Observer.process_ended`."""
        self._numbers = itertools.count(1)
        self._where: dict[int, Process] = {}
        self._old: set[Process] = set()
        """Processes that take no new jobs, and have not ended yet."""
        self._living: set[Process] = set()
        self._given_up: set[Process] = set()
        """Those among them that are ended with jobs in them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause = FIRST_PAUSE
        self._trying: set[int] = set()
        """Places where a process could not start, and will be tried again."""
        self._closed = False
        self._deadline: Deadline | None = None
        self._spares = Spares()
        self._lease_ends = float("inf")
        self.units: PoolUnits[Process] = PoolUnits(options.count)

    @property
    def processes(self) -> list[Process]:
        """All processes, also those that are about to end."""
        return [each for each in self.units.places if each is not None] + list(self._old)

    def memory_bytes(self) -> int | None:
        """Return the memory of this process and of those of the pool; `None` where the system does not tell.

        Pages that processes share are counted in each. May be called from any thread.
        """
        try:
            pids = [os.getpid(), *(each.pid for each in self.processes if each.pid is not None)]
        except RuntimeError:  # the pool changes meanwhile
            pids = [os.getpid()]
        return sum(map(resident_of, pids)) or None

    def start(self, sandbox: Sandbox | None = None) -> None:
        """Start a process in every empty place."""
        for number, place in enumerate(self.units.places):
            if place is None:
                self._fill(number, sandbox)

    def lease_until(self, at: float) -> None:
        """Let processes work until then (see `page.now`). May be called from any thread."""
        self._lease_ends = at
        if (deadline := self._deadline) is not None:
            deadline.page.ends = at

    def moved(self) -> None:
        """Tell the guard that this worker's loop moves."""
        if self._deadline is not None:
            self._deadline.page.moved = now()

    # --- running

    def reserve(self, need: UnitNeed) -> int | None:
        """Return the number of a seat, whose units are kept until `vacate`; `None` when there is no room."""
        place = self.units.find(need)
        if place is None:
            return None
        process = self.units.places[place]
        if process is None or process.sandbox != need.sandbox:
            process = self._fill(place, need.sandbox)
        number = next(self._numbers)
        self._where[number] = process
        process.reserve(number, need.size)
        return number

    def vacate(self, number: int) -> None:
        """Free the seat."""
        if (process := self._where.pop(number, None)) is not None:
            process.vacate(number)

    def run(self, number: int, order: ProcessJob) -> asyncio.Future[frames.Returned | frames.Raised]:
        """Return the answer to come to a job that has a seat."""
        process = self._where[number]
        done = process.run(number, order)
        if self._options.recycle_jobs is not None and process.started >= self._options.recycle_jobs:
            self._recycle(process, "jobs")
        return done

    def stop(self, number: int, reason: Abort) -> None:
        """Tell the handler to stop. Past its time-out, give its process up."""
        process = self._where.get(number)
        if process is None or number not in process.runs:
            return
        process.stop(number, reason)
        if reason == "timeout":
            process.runs[number].is_over_time = True
            self._replace(process, "timeout")
            self._begin(self._give_up(process))

    def is_held_up(self, number: int) -> bool:
        """Return whether another job in its process keeps this one from going on."""
        process = self._where.get(number)
        if process is None or process.blocker is None or process.blocker == number:
            return False
        return process.blocker != 0 or len(process.runs) > 1

    def evacuate(self, number: int) -> None:
        """Give up the process of this job, which another job holds up: what does not finish is handed back."""
        process = self._where.get(number)
        if process is not None:
            process.blamed = process.blocker if process.blamed is None else process.blamed
            self._replace(process, "held_up")
            self._begin(self._give_up(process))

    def renew(self, number: int) -> None:
        """Replace the process of this job: a module of which it could import a part only would harm others."""
        if (process := self._where.get(number)) is not None:
            self._recycle(process, "module")

    def kill(self, number: int) -> None:
        """Kill the process of this job; others in it are handed back."""
        process = self._where.get(number)
        if process is not None and number in process.runs:
            self._replace(process, "cancelled")
            process.kill()

    async def _give_up(self, process: Process) -> None:
        """Let healthy jobs finish where they can, then end the process."""
        healthy = [each.done for each in process.runs.values() if not each.is_over_time]
        late = [each.done for each in process.runs.values() if each.is_over_time]
        told_at = time.monotonic()
        if healthy:
            _, unfinished = await asyncio.wait(healthy, timeout=min(SILENT, self._options.drain))
            left = self._options.drain - SILENT
            if unfinished and left > 0 and not (late and self._stands_still(process, told_at)):
                await asyncio.wait(unfinished, timeout=left)
        if late := [each for each in late if not each.done()]:
            await asyncio.wait(late, timeout=self._options.grace / 2)
        await process.end(self._options.grace / 2)

    def _stands_still(self, process: Process, since: float) -> bool:
        """Return whether a process has not answered since, though its event loop, as far as it said, moves."""
        if process.blocker is not None or process.heard_at >= since:
            return False
        process.blocker = next((number for number, each in process.runs.items() if each.is_over_time), 0)
        log.warning(
            "process_stands_still: native code holds the interpreter's lock of process %s, which is ended; other jobs "
            "in it are handed back: give such a handler a process to itself", process.pid,
        )  # fmt: skip
        return True

    # --- keeping the places

    def _fill(self, place: int, sandbox: Sandbox | None) -> Process:
        """Start a new process in the place; retire the one that was there."""
        if (former := self.units.places[place]) is not None:
            self._retire(former)
        process = self.units.places[place] = self._make(self._hello(sandbox), self._spawn, self._on_change)
        self._living.add(process)
        return process

    async def _spawn(self, hello: frames.Hello) -> Spawned:
        take = spawn if hello.sandbox is None else self._spares.take
        return await take(kind_of(hello), self.deadline().fd)

    def deadline(self) -> Deadline:
        """Return where processes read when the lease ends."""
        if self._deadline is None:
            self._deadline = Deadline()
            self._deadline.page.ends = self._lease_ends
        return self._deadline

    def expect(self, sandboxes: Iterable[Sandbox]) -> None:
        """Start spare interpreters for sandboxes with these environments."""
        self._spares.wanted.update(kind_of(self._hello(sandbox)) for sandbox in sandboxes)
        self._spares.fill(self.deadline().fd)

    def _hello(self, sandbox: Sandbox | None) -> frames.Hello:
        level = logging.getLogger().getEffectiveLevel()
        resources = self._resources if sandbox is None else []
        mark = secrets.randbits(60) + 1 if sandbox is not None and sandbox.subprocess else 0
        seen = sandbox is None or "PYTHONPATH" in sandbox.env
        pythonpath = os.environ.get("PYTHONPATH") if seen else None
        return frames.Hello(search_path(), level, resources, sandbox, mark, pythonpath)

    def _recycle(self, process: Process, cause: str) -> None:
        """Give the process no new jobs, and start another before it has ended."""
        place = self._retire(process)
        if place is not None:
            self._told("recycle", cause)
        if place is not None and process.sandbox is None and not self._closed:
            self._fill(place, None)

    def _retire(self, process: Process) -> int | None:
        """Give the process no new jobs, and end it when its last ones are done, which keep their units until then."""
        place = self._take_out(process)
        if place is not None:
            self.units.leave(place, process)
            self._begin(self._see_off(process))
        return place

    async def _see_off(self, process: Process) -> None:
        await process.leave(self._options.grace)

    def _replace(self, process: Process, cause: str) -> None:
        """Give the process no new jobs, and start another in its place at once."""
        if process not in self._given_up:
            self._given_up.add(process)
            self._told("kill", cause)
        place = self._take_out(process)
        if place is not None and not self._closed:
            self._fill(place, process.sandbox)
            self._changed()

    def _take_out(self, process: Process) -> int | None:
        if process not in self.units.places:
            return None
        place = self.units.places.index(process)
        self.units.places[place] = None
        self._old.add(process)
        return place

    def _on_change(self, process: Process) -> None:
        if process.gone:
            if process in self._living and process.ended_unasked:
                self._told("death", "")
            self._living.discard(process)
            self._old.discard(process)
            self._given_up.discard(process)
            if process in self.units.places:
                self._heal(process)
        elif process.ready:
            self._pause = FIRST_PAUSE
            if self._spares.wanted and not self._closed:
                self._spares.fill(self.deadline().fd)
            most = self._options.recycle_memory
            if most is not None and process.usage.memory > most:
                log.info(
                    "process_recycled: process %s holds %d MB, and is replaced", process.pid, process.usage.memory >> 20
                )
                self._recycle(process, "memory")
        self._changed()

    def _heal(self, process: Process) -> None:
        """Start another process for one that died; after a pause, if it could not even start."""
        place = self.units.places.index(process)
        self.units.places[place] = None
        if self._closed or process.sandbox is not None:
            return  # a sandbox is started for the next job that needs it
        if process.short_lived:
            if place in self._trying:
                return
            self._trying.add(place)
            self._begin(self._try_again(place, process.why_unstarted))
        else:
            self._fill(place, None)

    async def _try_again(self, place: int, why: str) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        log.error("worker_error: a process could not start, another try follows in %.1f s: %s", pause, why)
        await asyncio.sleep(pause)
        self._trying.discard(place)
        if self.units.places[place] is None and not self._closed:
            self._fill(place, None)

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        ending = [asyncio.create_task(self._close(process)) for process in self.processes]
        await asyncio.wait([*ending, asyncio.create_task(self._spares.close())])
        if self._deadline is not None:
            self._deadline.close()
            self._deadline = None

    async def _close(self, process: Process) -> None:
        """Let an idle process close what it has open; end one that is busy."""
        if process.used == 0 and process.ready:
            await process.leave(self._options.grace)
        await process.end(self._options.grace)
