"""The crew: every handler that runs for a worker, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from ..continuation import Blocker
from ..core.policy import Cause
from ..core.transition import Reply
from ..errors import ConfigError
from ..executor import Executors, Pool, PoolOptions, ThreadExecutor
from ..executor.trouble import CannotStart
from ..hook import Happening, Hooks
from ..registry import Registry
from ..store.contract import Abort, BlockerRecord, Claimed, Lease, Released, Settlement, Store
from ..task import Task
from .alarm import Alarm
from .attempt import Attempt
from .barred import Barred
from .capacity import need_of
from .completion import Desk
from .report import Telling
from .story import Story

log = logging.getLogger("holdfast")
UNKNOWN_TASK_DELAY_MS = 5_000


class Crew(Telling):
    """Starts the handlers of claimed jobs, and keeps what they say until the store is told."""

    def __init__(self, store: Store, registry: Registry, hooks: Hooks, slots: int, pool: PoolOptions) -> None:
        super().__init__(hooks)
        self._store = store
        self.registry = registry
        self._slots = slots
        self.alarm = Alarm()
        """Rung when there is something to do for whoever talks with the store."""
        self.pool = Pool(pool, [each.place for each in registry.resources], self.alarm.ring)
        self.executors = Executors(ThreadExecutor(slots), self.pool, self._blocker_records)
        self.running: dict[Lease, Attempt] = {}
        self._in_processes = 0
        """How many of the running attempts take no slot."""
        self._suspects = 0
        """How many of them may have little company."""
        self._zombies: set[Attempt] = set()
        self._finished: list[Settlement] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._barred = Barred(hooks, self._ring_later, time.monotonic)
        self.unknown: set[str] = set()
        """What jobs wanted that nobody here knows, in words."""
        self.on_start: Callable[[list[Claimed]], None] = lambda jobs: None
        """Hears of jobs that were claimed, before their handlers run."""
        self.claiming = True
        self.drained = asyncio.Event()
        """Set while nothing runs, and nothing is being claimed that would."""
        self.drained.set()

    def _free(self) -> int:
        """Return how many slots are free. A thread that was given up keeps its slot until it returns."""
        return max(0, self._slots - len(self.running) + self._in_processes - len(self._zombies))

    def _company(self) -> int | None:
        """Return how many jobs may run here at most beside the suspects that do; `None` when there are none."""
        if not self._suspects:
            return None
        return min(each.claimed.company for each in self.running.values() if each.claimed.company is not None)

    def _fits(self, claimed: Claimed) -> bool:
        handler = self.registry.handler(claimed.lease.queue, claimed.task)
        if handler is not None and handler.in_process:
            return self.claiming and self.pool.room.find(need_of(handler)) is not None
        return self.claiming and self._free() > 0

    def _start(self, jobs: list[Claimed]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        hooked = self._hooks.wanted("claim")
        report, end, desk, blockers = self._store_progress, self._end, self._desk, self._blockers
        self.drained.clear()
        self.on_start(jobs)
        for claimed in jobs:
            if claimed.lease in self.running:
                continue  # a store that went back in time gives it a second time
            handler = self._handler(claimed)
            if handler is None:
                continue
            attempt = Attempt(claimed, handler, report, end, desk, blockers)
            self.running[claimed.lease] = attempt
            self._in_processes += handler.in_process
            self._suspects += claimed.company is not None
            self.report.started += 1
            if hooked:
                self._tell("claim", claimed.lease, "active", story=Story(claimed))
            attempt.start(loop, self.registry, self.executors)
        self._note_drained()

    def _ring_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.look_again)

    def look_again(self) -> None:
        """What could not be claimed a moment ago, perhaps can be by now."""
        self.alarm.ring()

    def _note_drained(self) -> None:
        if not self.running and not self._is_claiming():
            self.drained.set()

    def _is_claiming(self) -> bool:
        """Return whether a call is under way that may bring a job."""
        return False

    def _handler(self, claimed: Claimed) -> Any:
        """Return what runs the job; one that nobody here knows is released, for perhaps the next worker does."""
        try:
            handler = self.registry.handler(claimed.lease.queue, claimed.task)
            problem = None if handler else f"no task named {claimed.task!r}" if claimed.task else "no handler"
        except ConfigError as error:
            handler, problem = None, str(error)
        if problem is None:
            return handler
        if problem not in self.unknown:
            self.unknown.add(problem)
            log.error("queue %s: %s in this worker; such jobs are released", claimed.lease.queue, problem)
            self._hooks.tell(Happening(name="worker_error", queue=claimed.lease.queue, detail=problem))
        self._remember(claimed)
        self._finished.append(Released(claimed.lease, delay_ms=UNKNOWN_TASK_DELAY_MS, cause=Cause.WORKER))
        return None

    async def _store_progress(self, lease: Lease, progress: Any, checkpoint: bytes | None) -> Reply:
        assert self.session is not None
        reply = await self._store.progress(self.session, lease, progress, checkpoint)
        if reply is Reply.OK and self._hooks.wanted("progress"):
            attempt = self.running.get(lease)
            story = Story(attempt.claimed) if attempt is not None else None
            self._tell("progress", lease, "active", progress.message if progress else "", story)
        return reply

    def _desk(self, handler: Task[Any, Any]) -> Desk:
        """Return where an attempt writes and completes in a transaction of its own."""
        assert self.session is not None
        assert self._loop is not None
        atomic = handler.setting("completion") == "atomic"
        return Desk(self._store, self.session, handler, self._loop, atomic=atomic)

    async def _blockers(self, lease: Lease) -> list[Blocker]:
        """Return what a job waited for, decoded by the tasks that gave the results."""
        return [self.registry.blocker(each) for each in await self._blocker_records(lease)]

    async def _blocker_records(self, lease: Lease) -> list[BlockerRecord]:
        return await self._store.blockers(lease.queue, lease.id, lease.run)

    def _end(self, attempt: Attempt, settlement: Settlement | None) -> None:
        """The attempt's slot is free, and what it says will be told at the next turn."""
        lease = attempt.lease
        if self.running.pop(lease, None) is None:
            self._zombies.discard(attempt)  # it was given up before
            self.alarm.ring()
            return
        self._in_processes -= attempt.handler.in_process
        self._suspects -= attempt.claimed.company is not None
        if isinstance(attempt.error, CannotStart):
            self._barred.bar(lease.queue, attempt.error)
        elif self._barred:
            self._barred.works(lease.queue)
        self._remember(attempt)
        if attempt.done is not None:
            self._count(*attempt.done)  # it has told the store itself
        elif settlement is None:
            self._lose(lease, f"{attempt.reason}: nothing that its handler says counts any more")
        else:
            self._finished.append(settlement)
        self._note_drained()
        self.alarm.ring()

    def abort(self, lease: Lease, reason: Abort) -> None:
        """One handler hears that it should stop."""
        if attempt := self.running.get(lease):
            attempt.abort(reason)

    def abort_all(self, reason: Abort) -> None:
        """Every handler hears that it should stop."""
        for attempt in list(self.running.values()):
            attempt.abort(reason)

    def leave_stuck(self, seconds: float) -> bool:
        """Threads that do not return for so long after their time-out are left behind; return whether any is."""
        now = asyncio.get_running_loop().time()
        stuck = [
            attempt
            for attempt in self.running.values()
            if attempt.in_thread and attempt.late_since is not None and now - attempt.late_since > seconds
        ]
        for attempt in stuck:
            self._zombies.add(attempt)
            attempt.leave_behind()
        self.report.stuck += len(stuck)
        return bool(stuck)

    def give_up_all(self) -> None:
        """What still runs is handed back."""
        running = list(self.running.values())
        self._leave([attempt for attempt in running if attempt.in_thread])
        for attempt in running:
            attempt.give_up()
        self.alarm.ring()

    def abandon_all(self) -> None:
        """What still runs is handed back, and its handlers are left alone."""
        running = list(self.running.values())
        self._leave(running)
        for attempt in running:
            attempt.abandon()

    def _leave(self, attempts: list[Attempt]) -> None:
        """It is known which handlers may still run when the worker has ended."""
        names = [f"{attempt.lease.queue}/{attempt.lease.id}" for attempt in attempts]
        self.report.left += names
        if names:
            log.error("handlers_left: these do not stop, and their jobs are handed back: %s", ", ".join(names))

    def close(self) -> None:
        """No handler starts any more."""
        self.executors.threads.close()
