"""The observer: through it a worker tells what it does, many jobs at once. Logs and metrics listen here.

Every method is called in the worker's event loop, where jobs wait for it to return: it must be quick, and never wait.
What an observer raises is logged, and harms no job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ..core.limit import QueueSettings
from ..core.policy import Cause, Policy
from ..core.state import State
from ..errors import ConfigError
from ..store.contract import (
    TRANSITION_OF,
    Answer,
    Claimed,
    Expired,
    Failed,
    NewJob,
    Reaped,
    Released,
    Retried,
    Settled,
    Settlement,
)

log = logging.getLogger("holdfast")
_BY_STATE = {State.FAILED: "fail", State.CANCELLED: "cancel"}


class Ended(msgspec.Struct, gc=False):  # one a job: what it refers to does not refer to it
    """An attempt that has ended, and what became of it."""

    claimed: Claimed
    ran: float | None = None
    """Seconds from the handler's start to its end; `None` when it was never started."""
    error: BaseException | None = None
    """What the handler raised, if this process knows; what is stored of it is in the settlement."""
    settlement: Settlement | None = None
    """What the worker asked of the store; `None` when it had nothing to ask, as its lease was gone."""
    settled: Settled | None = None
    """What the store answered."""
    retry_in: float | None = None
    """Of a retry: the seconds until it may run again. Where its policy has jitter, those without it."""

    @property
    def waited(self) -> float:
        """Seconds from when the job was due to its claim."""
        return waited(self.claimed)

    @property
    def transition(self) -> str:
        """What happened to the job: complete, retry, fail, snooze, release, cancel. A retry at its limit is a fail."""
        state = self.settled.state if self.settled is not None else None
        name = _BY_STATE.get(state) if state is not None else None
        return name or (TRANSITION_OF[type(self.settlement)] if self.settlement is not None else "")

    @property
    def cause(self) -> Cause | None:
        """Why a job came back or failed; `None` for one that was completed or snoozed."""
        entry = self.settlement
        return entry.cause if isinstance(entry, Retried | Failed | Released) else None


def waited(claimed: Claimed) -> float:
    """Return the seconds from when a job was due to its claim."""
    return waited_ms(claimed) / 1000


def waited_ms(claimed: Claimed) -> int:
    """Return the milliseconds from when a job was due to its claim."""
    due, run_at, at = claimed.enqueued_at_ms, claimed.run_at_ms, claimed.claimed_at_ms
    if run_at > due:
        due = run_at
    return at - due if at > due else 0


class StoreCall(msgspec.Struct, frozen=True):
    """One call of a worker to its store."""

    name: str
    """The name of the contract's method: settle_and_claim, extend, reap, …"""
    seconds: float
    settled: int = 0
    """Of `settle_and_claim`: how many attempts it was to settle."""
    claimed: int = 0
    """Of `settle_and_claim`: how many jobs it brought."""
    error: Exception | None = None


class WorkerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the life of a worker, under the name of its hook: worker_started, store_lost, lease_lost, …"""

    name: str
    worker: str | None = None
    queue: str | None = None
    id: str | None = None
    run: int | None = None
    detail: str = ""
    error: BaseException | None = None


class WorkerView(Protocol):
    """A run of a worker, to be looked at from its own event loop at any time."""

    @property
    def name(self) -> str:
        """The worker's name."""

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that it serves now."""

    @property
    def slots(self) -> int:
        """How many jobs run at once."""

    @property
    def free(self) -> int:
        """The slots that are free."""

    @property
    def running(self) -> int:
        """How many handlers run now, in slots and in processes."""

    @property
    def processes(self) -> int:
        """How many processes run handlers, those that are about to end included."""

    @property
    def store_url(self) -> str:
        """The store, without a password."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What it did so far, by the names of `Report`: started, completed, retried, …"""


class Observer:
    """Hears what a worker does. Each method does nothing here: override those that you want."""

    def hears_completions(self) -> bool:
        """Return whether `settled` is to be told of jobs that were completed; asked once a turn."""
        return True

    def begin(self, worker: WorkerView) -> None:
        """A run of the worker begins; nothing was asked of the store yet."""

    def end(self, worker: WorkerView) -> None:
        """The run is over."""

    def started(self, claimed: Sequence[Claimed]) -> None:
        """The handlers of these jobs have been started."""

    def settled(self, ended: Sequence[Ended]) -> None:
        """The store has settled these attempts: the reply to each of them was `ok`."""

    def lost(self, ended: Sequence[Ended], why: str) -> None:
        """The ends of these attempts do not count."""

    def reaped(self, queue: str, reaped: Reaped) -> None:
        """This worker has reaped jobs of vanished workers."""

    def fired(self, queue: str, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> None:
        """This worker has fired a schedule of the queue: these jobs were enqueued, with these answers."""

    def expired(self, queue: str, expired: Expired) -> None:
        """This worker has removed finished runs."""

    def store_call(self, call: StoreCall) -> None:
        """The store has answered a call, or failed it."""

    def happened(self, event: WorkerEvent) -> None:
        """Something happened in the worker's life."""

    def process_ended(self, how: str, cause: str) -> None:
        """A process of the pool is replaced: `recycle` in order, `kill` with jobs in it, `death` when it ended unasked.

        The cause of a recycle is jobs, memory or module, that of a kill timeout, held_up or cancelled.
        """

    def settings_changed(self, queue: str, before: QueueSettings, after: QueueSettings) -> None:
        """The settings of a queue are others than in the turn before."""

    def policy_changed(self, queue: str, task: str, before: Policy, after: Policy) -> None:
        """The policy of a task is another than when it was last read."""


def check_observers(given: object) -> tuple[Observer, ...]:
    """Return the observers that a worker was given, or raise for what is none."""
    observers = tuple(given) if isinstance(given, list | tuple) else (given,)
    for each in observers:
        if not isinstance(each, Observer):
            raise ConfigError(f"observers: {each!r}: a list of objects of holdfast.telemetry.observer.Observer")
    return observers


class Observers(Observer):
    """Tells several observers, each shielded from what others raise, of what it has a method for."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._all = tuple(observers)
        self._hearing = {name: tuple(each for each in self._all if _hears(each, name)) for name in HEARD}
        """Who hears of what: nothing is spent on those that do not care."""
        self.keeps_completions = True
        """What `hears_completions` said last: a hot path looks here."""

    def hears_completions(self) -> bool:
        for each in self._all:
            if each.hears_completions():
                self.keeps_completions = True
                return True
        self.keeps_completions = False
        return False

    def begin(self, worker: WorkerView) -> None:
        self._tell("begin", worker)

    def end(self, worker: WorkerView) -> None:
        self._tell("end", worker)

    def started(self, claimed: Sequence[Claimed]) -> None:
        self._tell("started", claimed)

    def settled(self, ended: Sequence[Ended]) -> None:
        self._tell("settled", ended)

    def lost(self, ended: Sequence[Ended], why: str) -> None:
        self._tell("lost", ended, why)

    def reaped(self, queue: str, reaped: Reaped) -> None:
        self._tell("reaped", queue, reaped)

    def fired(self, queue: str, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> None:
        self._tell("fired", queue, jobs, answers)

    def expired(self, queue: str, expired: Expired) -> None:
        self._tell("expired", queue, expired)

    def store_call(self, call: StoreCall) -> None:
        self._tell("store_call", call)

    def happened(self, event: WorkerEvent) -> None:
        self._tell("happened", event)

    def process_ended(self, how: str, cause: str) -> None:
        self._tell("process_ended", how, cause)

    def settings_changed(self, queue: str, before: QueueSettings, after: QueueSettings) -> None:
        self._tell("settings_changed", queue, before, after)

    def policy_changed(self, queue: str, task: str, before: Policy, after: Policy) -> None:
        self._tell("policy_changed", queue, task, before, after)

    def hears(self, name: str) -> bool:
        """Return whether one of them has a method of its own for this."""
        return bool(self._hearing[name])

    def _tell(self, name: str, *told: object) -> None:
        for each in self._hearing[name]:
            try:
                getattr(each, name)(*told)
            except Exception:
                log.exception("observer_failed: %s raised, which harms no job", type(each).__name__)


HEARD = tuple(name for name in vars(Observer) if not name.startswith("_") and name != "hears_completions")
"""The methods by which an observer hears of something."""


def _hears(observer: Observer, name: str) -> bool:
    """Return whether the observer has a method of its own for it."""
    return getattr(getattr(observer, name), "__func__", None) is not getattr(Observer, name)
