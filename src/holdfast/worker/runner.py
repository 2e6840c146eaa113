"""The runner: every handler that runs for a worker, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from operator import attrgetter

from ..app.hooks import Hooks
from ..app.registry import Registry
from ..app.task import AnyTask
from ..core.job import Progress
from ..core.policy import Cause
from ..core.transition import Reply
from ..errors import ConfigError
from ..executor import Executors
from ..executor.at_work import Key, at_work
from ..executor.shortage import CannotStart
from ..handler.middleware import Middleware
from ..store.contract import Abort, Claimed, Complete, Lease, Released, Settlement, Turn
from ..telemetry import traces
from ..telemetry.observer import Observers
from .attempts.attempt import Attempt
from .attempts.handler_services import HandlerServices
from .attempts.shared_task import AttemptTasks, Pace, Run
from .outcomes import AttemptRecord, Outcomes
from .turns.capacity import need_of
from .turns.choice import PendingTurns
from .turns.skipped_queues import FailingQueues, UnknownTasks
from .turns.wakeups import WakeUps
from .upkeep.upkeep import ClaimCounts

log = logging.getLogger("holdfast")
_queue_of = attrgetter("lease.queue")
DEAD = "its worker was declared dead"
FIRST_WAIT_MS, LONGEST_WAIT_MS = 250, 5_000
"""A job whose id still runs in this process comes back after so long, twice as long with each attempt."""


class Runner:
    """Start the handlers of claimed jobs in a worker's slots, stop them, and pass their outcomes on."""

    def __init__(
        self,
        *,
        registry: Registry,
        hooks: Hooks,
        slots: int,
        executors: Executors,
        services: HandlerServices,
        outcomes: Outcomes,
        pending: PendingTurns,
        wake_ups: WakeUps,
        failing: FailingQueues,
        unknown: UnknownTasks,
        claims: ClaimCounts,
        middleware: Sequence[Middleware] = (),
        observer: Observers | None = None,
    ) -> None:
        self.registry = registry
        self.slots = slots
        self.executors = executors
        self._hooks = hooks
        self._services = services
        self._outcomes = outcomes
        self._pending = pending
        self._alarm = wake_ups.alarm
        self._failing = failing
        self._unknown = unknown
        self._claims = claims
        self._observer = observer
        self._middleware = middleware
        """The worker's own, inside the app's."""
        self._tasks = AttemptTasks(self._completed)
        self.running: dict[Lease, Attempt] = {}
        self._taken = 0
        """The slots that the running attempts take."""
        self.suspects = 0
        """How many of the running attempts are suspects, which allow few others beside them."""
        self.abandoned: set[Attempt] = set()
        """Attempts that were given up while their threads still run, and keep their slots."""
        self.accepting = True
        """Whether new jobs are claimed."""
        self.starting = True
        """Whether jobs that were claimed are started; otherwise they are handed back."""
        self.drained = asyncio.Event()
        """Set while nothing runs, and no pending turn may bring a job."""
        self.drained.set()
        at_work.add(self)

    @property
    def free(self) -> int:
        """The slots that are free. A thread that was given up keeps its slot until it returns."""
        abandoned = sum(attempt.handler.slots for attempt in self.abandoned) if self.abandoned else 0
        return max(0, self.slots - self._taken - abandoned)

    @property
    def handlers_wait(self) -> bool:
        """True when handlers of some task waited the last time, or run elsewhere than in the loop."""
        return self._tasks.any_waits

    def most_beside_suspects(self) -> int | None:
        """Return how many jobs may run here at most, given the suspects that do; `None` when there are none."""
        if not self.suspects:
            return None
        return min(each.claimed.company for each in self.running.values() if each.claimed.company is not None)

    def fits(self, claimed: Claimed) -> bool:
        """Return whether the job can be started now."""
        handler = self.registry.handler(claimed.lease.queue, claimed.task)
        if handler is not None and handler.in_process:
            return self.accepting and self.executors.pool.units.find(need_of(handler)) is not None
        return self.accepting and self.free >= (1 if handler is None else handler.slots)

    def apply(self, turn: Turn, settlements: Sequence[Settlement]) -> None:
        """Apply what a turn answered: count what was settled, stop handlers, and start what was claimed."""
        if turn.late:
            self._outcomes.warn_of_lateness()
        if settlements:
            self._outcomes.count_all(settlements, turn.settled)
        for lease, reason in turn.aborts:
            self.abort(lease, reason)
        if turn.claimed:
            self.start(turn.claimed)

    def start(self, jobs: list[Claimed]) -> None:
        """Start the handlers of these jobs, or hand the jobs back where that cannot be."""
        if not self.starting:  # at the end of a shutdown, when no handler would be told to stop
            self._outcomes.unsettled += [Released(claimed.lease) for claimed in jobs]
            return
        self.drained.clear()
        self._claims.add(map(_queue_of, jobs))
        begun = self._taken_in(jobs)
        if begun:
            self._outcomes.report.started += len(begun)
            if self._observer is not None:
                self._observer.hears_completions()
                if self._observer.hears("started"):
                    self._observer.started([each.claimed for each in begun])
            tracing = traces.tracing()
            run, pace = self._run(tracing)
            self._tasks.start([each for each in begun if each.reserve(self.executors)], run, pace, tracing)
        self.note_drained()

    def _taken_in(self, jobs: list[Claimed]) -> list[Attempt]:
        """Return attempts of these jobs, which take their slots from now on."""
        begun, running, tasks = list[Attempt](), self.running, self.registry.tasks
        progress, ended, services, unknown = self._progress, self._ended, self._services, self._unknown
        hooked, any_unknown = "claim" in self._hooks.wanted, bool(unknown)
        for claimed in jobs:
            lease = claimed.lease
            if lease in running:
                continue  # a store that went back in time gives it a second time
            handler = tasks.get(claimed.task or "") or self._handler(claimed)
            if handler is None or ((at_work.marks or claimed.counters.attempts > 1) and self._is_present(claimed)):
                continue
            if any_unknown:
                unknown.works(lease.queue)
            running[lease] = attempt = Attempt(claimed, handler, services, progress, ended)
            self._taken += handler.slots
            self.suspects += claimed.company is not None
            if hooked:
                self._outcomes.tell("claim", lease, "active", record=AttemptRecord(claimed))
            begun.append(attempt)
        return begun

    def _run(self, tracing: traces.Tracing | None) -> tuple[Run, Pace]:
        """Return what runs an attempt that is started now, and whether there is a quicker way for the usual ones."""
        middleware, executors = self.registry.middleware, self.executors
        if self._middleware:
            middleware = [*middleware, *self._middleware]
        pace: Pace = "timed" if self._outcomes.keeps_completions else "quickly"
        if middleware or self._hooks.wants_ends:
            pace = "slowly"
        return lambda attempt: attempt.run(middleware, executors, tracing), pace

    def _completed(self, attempts: list[Attempt], settlements: list[Complete]) -> None:
        """Free the slots of attempts whose handlers have returned, and keep their settlements for the next turn.

        It equals `_ended` for each of them, where no hook is told of their ends.
        """
        running, outcomes = self.running, self._outcomes
        settled, kept = outcomes.unsettled, outcomes.keeps_completions
        for attempt, settlement in zip(attempts, settlements, strict=True):
            claimed = attempt.claimed
            if running.pop(claimed.lease, None) is None:
                continue  # it was given up before
            self._taken -= attempt.handler.slots
            self.suspects -= claimed.company is not None
            settled.append(settlement)
            if kept:
                outcomes.keep(attempt)
            attempt.job._close()
        if self._failing:
            for attempt in attempts:
                self._failing.works(attempt.claimed.lease.queue)
        if not running:
            self.note_drained()
        self._alarm.ring()

    def note_drained(self) -> None:
        """Set `drained` if nothing runs, and no pending turn may bring a job."""
        if not self.running and not self._pending.may_bring_jobs:
            self.drained.set()

    def _handler(self, claimed: Claimed) -> AnyTask | None:
        """Return the task that runs the job; a job of an unknown task is released, for workers that know it."""
        try:
            handler = self.registry.handler(claimed.lease.queue, claimed.task)
            problem = None if handler else f"no task named {claimed.task!r}" if claimed.task else "no handler"
        except ConfigError as error:
            handler, problem = None, str(error)
        if problem is None:
            return handler
        self._outcomes.remember(claimed)
        self._outcomes.unsettled.append(self._unknown.release(claimed, problem, self._services.session))
        return None

    def holds(self, key: Key) -> bool:
        """Return whether a handler of the id runs in this worker."""
        return any(self.executors.key(lease) == key for lease in tuple(self.running))

    def _is_present(self, claimed: Claimed) -> bool:
        """Return whether an earlier handler of the id still runs in this process: then the job comes back later."""
        if not at_work.has(self.executors.key(claimed.lease), self):
            return False
        lease, tries = claimed.lease, claimed.counters.attempts - 1
        log.warning(
            "still_running: the handler of an earlier attempt of %s/%s has not returned, so the next one waits for it",
            lease.queue, lease.id,
        )  # fmt: skip
        self._outcomes.remember(claimed)
        delay = min(FIRST_WAIT_MS * 2 ** min(tries, 8), LONGEST_WAIT_MS)
        self._outcomes.unsettled.append(Released(lease, delay_ms=delay, cause=Cause.WORKER))
        return True

    async def _progress(self, lease: Lease, progress: Progress | None, checkpoint: bytes | None) -> Reply:
        """Store the progress of a running job, and tell hooks."""
        reply = await self._services.progress(lease, progress, checkpoint)
        if reply is Reply.OK and "progress" in self._hooks.wanted:
            attempt = self.running.get(lease)
            record = AttemptRecord(attempt.claimed) if attempt is not None else None
            self._outcomes.tell("progress", lease, "active", progress.message if progress else "", record)
        return reply

    def _ended(self, attempt: Attempt, settlement: Settlement | None) -> None:
        """Free the attempt's slot, and keep its settlement for the next turn."""
        claimed, outcomes, error = attempt.claimed, self._outcomes, attempt.error
        lease = claimed.lease
        if self.running.pop(lease, None) is None:
            self.abandoned.discard(attempt)  # it was given up before
            self._alarm.ring()
            return
        self._taken -= attempt.handler.slots
        self.suspects -= claimed.company is not None
        if error is not None and isinstance(error, CannotStart):
            self._failing.failed(lease.queue, error)
        else:
            self._failing.works(lease.queue)
        outcomes.remember(attempt, settlement)
        if (done := attempt.done) is not None:
            outcomes.count_all([done[0]], [done[1]])  # the handler has told the store itself
        elif settlement is None:
            outcomes.lose(lease, f"{attempt.reason}: nothing that its handler says counts any more")
        else:
            outcomes.unsettled.append(settlement)
        if not self.running:
            self.note_drained()
        self._alarm.ring()

    def abort(self, lease: Lease, reason: Abort) -> None:
        """Tell one handler to stop."""
        if attempt := self.running.get(lease):
            attempt.abort(reason)

    def abort_all(self, reason: Abort) -> None:
        """Tell every handler to stop."""
        for attempt in list(self.running.values()):
            attempt.abort(reason)

    def abandon_stuck(self, seconds: float) -> bool:
        """Abandon threads that have not returned for so long after their time-out; return whether there were any."""
        now = asyncio.get_running_loop().time()
        stuck = [
            attempt
            for attempt in self.running.values()
            if attempt.in_thread and attempt.late_since is not None and now - attempt.late_since > seconds
        ]
        for attempt in stuck:
            self.abandoned.add(attempt)
            attempt.abandon_as_timed_out()
        self._outcomes.report.stuck += len(stuck)
        return bool(stuck)

    def give_up_all(self) -> None:
        """Cancel or kill every handler, and hand its job back."""
        running = list(self.running.values())
        self._report_left([attempt for attempt in running if attempt.in_thread])
        for attempt in running:
            attempt.give_up()
        self._alarm.ring()

    def abandon_all(self) -> None:
        """Hand back the jobs of all handlers that still run, and leave the handlers alone."""
        running = list(self.running.values())
        self._report_left(running)
        for attempt in running:
            attempt.keep_present(self.executors)
            attempt.abandon()

    def lose_all(self) -> None:
        """Abort every handler without an outcome, as the session is dead."""
        attempts = list(self.running.values())
        for attempt in attempts:
            self._outcomes.remember(attempt)
            self._outcomes.lose(attempt.lease, DEAD)
        self.abandoned.update(attempt for attempt in attempts if attempt.in_thread)
        self.abort_all("lease_lost")
        for attempt in self.running.values():
            attempt.keep_present(self.executors)
        self.running.clear()
        self._taken = self.suspects = 0
        self.drained.set()

    def _report_left(self, attempts: list[Attempt]) -> None:
        """Say which handlers may still run when the worker has ended."""
        names = [f"{attempt.lease.queue}/{attempt.lease.id}" for attempt in attempts]
        self._outcomes.report.left += names
        if names:
            log.error("handlers_left: these do not stop, and their jobs are handed back: %s", ", ".join(names))

    def close(self) -> None:
        """Start no handler any more."""
        self._tasks.close()
        self.executors.threads.close()
