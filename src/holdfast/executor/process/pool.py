"""The pool: processes that run jobs, started when needed, replaced when they die, hang, age or grow."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ...core.sandbox import Sandbox
from ...page import now
from ...store.contract import Abort
from . import wire
from .deadline import Deadline
from .order import Order
from .process import Process, Start
from .room import Need, Room
from .spare import Spares
from .spawn import Spawned, kind_of, search_path, spawn

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0


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


class Pool:
    """Runs jobs in processes. `changed` is called when there may be more room."""

    def __init__(
        self,
        options: PoolOptions,
        resources: Sequence[str],
        changed: Callable[[], None],
        make: Callable[[wire.Hello, Start, Callable[[Process], None]], Process] = Process,
    ) -> None:
        self._options = options
        self._make = make
        self._resources = list(resources)
        self._changed = changed
        self._numbers = itertools.count(1)
        self._where: dict[int, Process] = {}
        self._old: set[Process] = set()
        """Processes that take no new jobs, and have not ended yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause = FIRST_PAUSE
        self._trying: set[int] = set()
        """Places where a process could not start, and will be tried again."""
        self._closed = False
        self._deadline: Deadline | None = None
        self._spares = Spares()
        self._lease_ends = float("inf")
        self.room: Room[Process] = Room(options.count)

    @property
    def processes(self) -> list[Process]:
        """Those that are there, with those that are about to end."""
        return [each for each in self.room.places if each is not None] + list(self._old)

    def start(self, sandbox: Sandbox | None = None) -> None:
        """There is a process in every place."""
        for number, place in enumerate(self.room.places):
            if place is None:
                self._fill(number, sandbox)

    def lease_until(self, at: float) -> None:
        """Processes may work until then (see `page.now`). May be called from any thread."""
        self._lease_ends = at
        if (deadline := self._deadline) is not None:
            deadline.page.ends = at

    def moved(self) -> None:
        """Whoever guards this worker knows that its loop moves."""
        if self._deadline is not None:
            self._deadline.page.moved = now()

    # --- running

    def sit(self, need: Need) -> int | None:
        """Return the number of a seat, whose units are kept until `rise`; `None` when there is no room."""
        place = self.room.find(need)
        if place is None:
            return None
        process = self.room.places[place]
        if process is None or process.sandbox != need.sandbox:
            process = self._fill(place, need.sandbox)
        number = next(self._numbers)
        self._where[number] = process
        process.sit(number, need.size)
        return number

    def rise(self, number: int) -> None:
        """The seat is free."""
        if (process := self._where.pop(number, None)) is not None:
            process.rise(number)

    def run(self, number: int, order: Order) -> asyncio.Future[wire.Returned | wire.Raised]:
        """Return the answer to come to a job that has a seat."""
        process = self._where[number]
        done = process.run(number, order)
        if self._options.recycle_jobs is not None and process.started >= self._options.recycle_jobs:
            self._recycle(process)
        return done

    def stop(self, number: int, reason: Abort) -> None:
        """The handler hears that it should stop. Past its time, its process is given up."""
        process = self._where.get(number)
        if process is None or number not in process.runs:
            return
        process.stop(number, reason)
        if reason == "timeout":
            process.runs[number].is_over_time = True
            self._replace(process)
            self._begin(self._give_up(process))

    def is_held_up(self, number: int) -> bool:
        """Return whether another job in its process keeps this one from going on."""
        process = self._where.get(number)
        return process is not None and bool(process.blocker) and process.blocker != number

    def evacuate(self, number: int) -> None:
        """The process of this job, which another holds up, is given up: whatever does not finish is handed back."""
        process = self._where.get(number)
        if process is not None:
            self._replace(process)
            self._begin(self._give_up(process))

    def kill(self, number: int) -> None:
        """The process of this job is killed; others in it are handed back."""
        process = self._where.get(number)
        if process is not None and number in process.runs:
            self._replace(process)
            process.kill()

    async def _give_up(self, process: Process) -> None:
        """Healthy jobs are let finish; then the process is ended."""
        healthy = [each.done for each in process.runs.values() if not each.is_over_time]
        late = [each.done for each in process.runs.values() if each.is_over_time]
        if healthy:
            await asyncio.wait(healthy, timeout=self._options.drain)
        if late := [each for each in late if not each.done()]:
            await asyncio.wait(late, timeout=self._options.grace / 2)
        await process.end(self._options.grace / 2)

    # --- keeping the places

    def _fill(self, place: int, sandbox: Sandbox | None) -> Process:
        """A new process is in the place; one that was there is on its way out."""
        if (former := self.room.places[place]) is not None:
            self._retire(former)
        process = self.room.places[place] = self._make(self._hello(sandbox), self._spawn, self._on_change)
        return process

    async def _spawn(self, hello: wire.Hello) -> Spawned:
        take = spawn if hello.sandbox is None else self._spares.take
        return await take(kind_of(hello), self.deadline().fd)

    def deadline(self) -> Deadline:
        """Return where processes read when the lease ends."""
        if self._deadline is None:
            self._deadline = Deadline()
            self._deadline.page.ends = self._lease_ends
        return self._deadline

    def expect(self, sandboxes: Iterable[Sandbox]) -> None:
        """Sandboxes with these environments will start from interpreters that are there already."""
        self._spares.wanted.update(kind_of(self._hello(sandbox)) for sandbox in sandboxes)
        self._spares.fill(self.deadline().fd)

    def _hello(self, sandbox: Sandbox | None) -> wire.Hello:
        level = logging.getLogger().getEffectiveLevel()
        resources = self._resources if sandbox is None else []
        mark = secrets.randbits(60) + 1 if sandbox is not None and sandbox.subprocess else 0
        seen = sandbox is None or "PYTHONPATH" in sandbox.env
        pythonpath = os.environ.get("PYTHONPATH") if seen else None
        return wire.Hello(search_path(), level, resources, sandbox, mark, pythonpath)

    def _recycle(self, process: Process) -> None:
        """It takes no new jobs, and another is there before it has ended."""
        place = self._retire(process)
        if place is not None and process.sandbox is None and not self._closed:
            self._fill(place, None)

    def _retire(self, process: Process) -> int | None:
        """It takes no new jobs, and ends when those in it are done; until then they keep their units of the place."""
        place = self._take_out(process)
        if place is not None:
            self.room.leave(place, process)
            self._begin(self._see_off(process))
        return place

    async def _see_off(self, process: Process) -> None:
        await process.leave(self._options.grace)

    def _replace(self, process: Process) -> None:
        """It takes no new jobs, and another is started in its place at once."""
        place = self._take_out(process)
        if place is not None and not self._closed:
            self._fill(place, process.sandbox)
            self._changed()

    def _take_out(self, process: Process) -> int | None:
        if process not in self.room.places:
            return None
        place = self.room.places.index(process)
        self.room.places[place] = None
        self._old.add(process)
        return place

    def _on_change(self, process: Process) -> None:
        if process.gone:
            self._old.discard(process)
            if process in self.room.places:
                self._heal(process)
        elif process.ready:
            self._pause = FIRST_PAUSE
            if self._spares.wanted and not self._closed:
                self._spares.fill(self.deadline().fd)
            most = self._options.recycle_memory
            if most is not None and process.usage.memory > most:
                log.info("process %s holds %d MB, and is replaced", process.pid, process.usage.memory >> 20)
                self._recycle(process)
        self._changed()

    def _heal(self, process: Process) -> None:
        """Another takes the place of one that died; after a while, if it could not even start."""
        place = self.room.places.index(process)
        self.room.places[place] = None
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
        if self.room.places[place] is None and not self._closed:
            self._fill(place, None)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """No process is left."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        ending = [asyncio.create_task(self._close(process)) for process in self.processes]
        await asyncio.wait([*ending, asyncio.create_task(self._spares.close())])
        if self._deadline is not None:
            self._deadline.close()
            self._deadline = None

    async def _close(self, process: Process) -> None:
        """One that is idle closes what it has open; one that is not is ended."""
        if process.used == 0 and process.ready:
            await process.leave(self._options.grace)
        await process.end(self._options.grace)
