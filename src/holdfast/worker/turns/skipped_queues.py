"""Queues that a worker passes over for a while: those whose handlers it cannot start, those of unknown tasks, and all
but those with suspects while it makes room for one.

A queue whose jobs another worker knows is left to that one for a moment, longer each time that only unknown jobs come,
so that a worker does not claim again and again what it cannot run. Where no live worker knows the task, the job comes
back after a delay instead, so that the jobs behind it have their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Literal

from ...app.hooks import HookEvent, Hooks
from ...core.policy import Cause
from ...errors import StoreError
from ...store.contract import Claimed, Released, Session, Store, knows

log = logging.getLogger("holdfast")
FIRST_FAILING, LONGEST_FAILING = 0.5, 30.0
"""Seconds for which a queue whose handlers cannot be started is passed over, twice as long each time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds for which a queue is left to others, twice as long each time that it brings no job of a known task."""
FIRST_DELAY_MS, LONGEST_DELAY_MS = 5_000, 30_000
"""A job that no live worker knows comes back after so long, twice as long each time."""
CURRENT = 2.0
"""For so many seconds, what is known of the other workers is taken as it is."""
FIRST_PATIENCE = 1.0
"""How long a worker makes room at first, in seconds."""
IN_VAIN = 4
"""For so many times as long it works as usual, when making room was of no use."""
IN_A_ROW = 1.0
"""For so many seconds it takes one suspect after the other, while others wait."""


class FailingQueues:
    """Queues whose handlers this worker cannot start for trouble of its own. `later` wakes it after some seconds."""

    def __init__(self, hooks: Hooks, later: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._hooks = hooks
        self._later = later
        self._clock = clock
        self._pauses: dict[str, float] = {}
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def failed(self, queue: str, error: BaseException) -> None:
        """Pass the queue over for a while, as a handler could not be started; several at once count as one trouble."""
        if self._clock() < self._until.get(queue, 0.0):
            return
        pause = self._pauses[queue] = min(self._pauses.get(queue, FIRST_FAILING / 2) * 2, LONGEST_FAILING)
        self._until[queue] = self._clock() + pause
        self._later(pause)
        log.error(
            "worker_error: queue %s: this worker cannot start handlers, so it hands their jobs back free of charge, "
            "and claims none for %.1f s: %s", queue, pause, error,
        )  # fmt: skip
        self._hooks.tell(HookEvent(name="worker_error", queue=queue, error=error, detail=str(error)))

    def works(self, queue: str) -> None:
        """Serve the queue again, as one of its handlers could be started."""
        if self._pauses and self._pauses.pop(queue, None) is not None:
            self._until.pop(queue, None)
            log.warning("queue_served_again: handlers of queue %s start again", queue)

    def served(self, queues: Sequence[str]) -> Sequence[str]:
        """Return those of the queues that may be asked now."""
        if not self._until:
            return queues
        now = self._clock()
        return [queue for queue in queues if self._until.get(queue, 0.0) <= now]


class UnknownTasks:
    """Tasks that one worker has met and does not know. `later` wakes it after so many seconds."""

    def __init__(self, store: Store, hooks: Hooks, later: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._store = store
        self._hooks = hooks
        self._later = later
        self._clock = clock
        self._pauses: dict[str, float] = {}
        self._until: dict[str, float] = {}
        self._others: dict[tuple[str, str | None], bool] = {}
        """Whether another live worker knows a task, as of the last time that the store was asked."""
        self._looked_at = -CURRENT
        self._looking: asyncio.Task[None] | None = None
        self.problems: set[str] = set()
        """What jobs wanted that this worker does not know, in words."""
        self.alone = False
        """There are no other workers."""

    def __bool__(self) -> bool:
        return bool(self._pauses)

    @property
    def resting(self) -> bool:
        """True while a queue is left to others: then this worker is not to be woken for it."""
        return bool(self._until) and max(self._until.values()) > self._clock()

    def release(self, claimed: Claimed, problem: str, session: Session | None) -> Released:
        """Return the settlement that releases a job which cannot be run here."""
        queue = claimed.lease.queue
        self._report(queue, problem)
        if not self.alone and self._is_known_to_others(claimed, session):
            self._rest(queue)
            return Released(claimed.lease, cause=Cause.WORKER)
        counts = claimed.counters
        tries = counts.attempts - 1 - counts.failures - counts.timeouts - counts.stalls - counts.releases
        delay = min(FIRST_DELAY_MS * 2 ** min(max(tries, 0), 8), LONGEST_DELAY_MS)
        return Released(claimed.lease, delay_ms=delay, cause=Cause.WORKER)

    def _is_known_to_others(self, claimed: Claimed, session: Session | None) -> bool:
        """Return whether another worker knows the task; an old answer counts as yes until it is asked again."""
        known = self._others.setdefault((claimed.lease.queue, claimed.task), True)
        current = self._clock() - self._looked_at < CURRENT
        self._look(session)
        return known or not current

    def works(self, queue: str) -> None:
        """Note that the queue also brought a job of a known task, so that it is asked again soon."""
        if self._pauses:
            self._pauses.pop(queue, None)

    def served(self, queues: Sequence[str]) -> Sequence[str]:
        """Return those of the queues that are not left to others now."""
        if not self._until:
            return queues
        now = self._clock()
        self._until = {queue: until for queue, until in self._until.items() if until > now}
        return [queue for queue in queues if queue not in self._until]

    def _rest(self, queue: str) -> None:
        """Leave the queue to others for a while; several unknown jobs at once count as one reason."""
        if self._clock() < self._until.get(queue, 0.0):
            return
        pause = self._pauses[queue] = min(self._pauses.get(queue, FIRST_PAUSE / 2) * 2, LONGEST_PAUSE)
        self._until[queue] = self._clock() + pause
        self._later(pause)

    def _report(self, queue: str, problem: str) -> None:
        if problem not in self.problems:
            self.problems.add(problem)
            log.error(
                "unknown_task: queue %s: %s in this worker; it hands such jobs back free of charge", queue, problem
            )
            self._hooks.tell(HookEvent(name="worker_error", queue=queue, detail=problem))

    def _look(self, session: Session | None) -> None:
        """Ask the store which workers know these tasks, unless that was lately."""
        if self._looking is None and self._clock() - self._looked_at >= CURRENT:
            self._looking = asyncio.get_running_loop().create_task(self._ask(session.id if session else ""))

    async def _ask(self, own: str) -> None:
        try:
            alive = [each.session for each in await self._store.sessions() if each.alive and each.session.id != own]
            for queue, task in self._others:
                self._others[queue, task] = any(knows(other, queue, task) for other in alive)
            for queue in [queue for queue in self._until if not self._is_known(queue)]:
                del self._until[queue]
                self._pauses.pop(queue, None)
            self._later(0.0)
        except StoreError as error:
            log.warning("sessions_unread: the store did not say which workers know which tasks: %s", error)
        finally:
            self._looked_at, self._looking = self._clock(), None

    def _is_known(self, queue: str) -> bool:
        """Return whether another worker knows a task of the queue that is unknown here."""
        return any(known for (of, _), known in self._others.items() if of == queue)


class SuspectReserve:
    """Whether one worker keeps its slots free for suspects: jobs that may have brought a worker down.

    A suspect goes to a worker that holds few enough jobs, and a busy one never does unless it makes room. So it claims
    nothing else for a while, until enough of its jobs have ended. That must do its other jobs little harm: it gives up
    after a second, works as usual for four times as long, and then tries again for twice as long as before. After it
    has had suspects, other jobs have their turn for as long. Pure: the caller tells the time.
    """

    def __init__(self) -> None:
        self._state: Literal["open", "keeping", "holding"] = "open"
        self._left: set[str] = set()
        """Queues with suspects for which the worker held too many jobs."""
        self._since = 0.0
        self._until = 0.0
        """Of a worker that makes room: when it gives up. Of one that has suspects: when it takes no more of them."""
        self._closed_until = 0.0
        self._patience = FIRST_PATIENCE

    @property
    def keeping(self) -> bool:
        """True while the worker claims suspects only, and makes room for them."""
        return self._state == "keeping"

    @property
    def is_idle(self) -> bool:
        """True while no suspect is known of: then only one that is held, or was left, changes anything."""
        return self._state == "open" and not self._left

    def queues(self, served: Sequence[str]) -> Sequence[str]:
        """Return which queues to ask, of those that are served."""
        return [queue for queue in served if queue in self._left] if self.keeping else served

    def wants(self, now: float) -> bool:
        """Return whether to take a suspect, provided that few enough jobs run beside it."""
        if self._state == "open":
            return now >= self._closed_until
        return self._state == "keeping" or now < self._until

    def look(self, now: float, holding: bool) -> None:
        """Move on to this time; `holding` says whether the worker holds a suspect."""
        if holding and self._state != "holding":
            self._since = self._since if self.keeping else now
            self._state, self._until, self._patience = "holding", now + IN_A_ROW, FIRST_PATIENCE
        elif self._state == "holding" and not holding:
            self._state, self._closed_until = "open", 2 * now - self._since
        elif self.keeping and now >= self._until:
            self._state, self._closed_until = "open", now + IN_VAIN * self._patience
            self._patience *= 2

    def told(self, now: float, asked: Collection[str], left: Collection[str], less: bool) -> None:
        """Note that a turn asked these queues and left suspects in some; `less`: no other jobs are left there."""
        self._left = (self._left - set(asked)) | set(left)
        if less and left and not self.keeping:  # no other job waits for this worker
            self._closed_until, self._until = now, now + IN_A_ROW
        if self._state == "open" and self._left and now >= self._closed_until:
            self._state, self._since, self._until = "keeping", now, now + self._patience
        elif self.keeping and not self._left:
            self._state, self._patience = "open", FIRST_PATIENCE

    def seconds(self, now: float) -> float | None:
        """Return the seconds until the reserve ends by itself; `None` when none is kept."""
        return max(0.0, self._until - now) if self.keeping else None
