"""Outcomes: how attempts ended, kept until the store has settled them, then counted and told to hooks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from ..app.hooks import HookEvent, Hooks
from ..app.task import AnyTask
from ..core.policy import COUNTER, Cause, Counters, Retry
from ..core.state import State
from ..core.transition import Reply
from ..store.contract import (
    TRANSITION_OF,
    Claimed,
    Complete,
    Failed,
    Lease,
    Released,
    Retried,
    Settled,
    Settlement,
)
from ..telemetry.observer import Ended, Observers
from .attempts.attempt import Attempt
from .attempts.handler_services import CurrentSession

log = logging.getLogger("holdfast")


ExitReason = Literal["evicted", "stuck", "store_too_new", "gave_up", "error"]
WITH_ERROR = ("retry", "fail", "release", "lost")
COUNTED = ("retry", "fail", "release")
_COUNT_OF = {"complete": "completed", "retry": "retried", "fail": "failed", "snooze": "snoozed", "release": "released"}
_COUNT_OF_STATE = {"failed": "failed", "cancelled": "cancelled"}
_OK, _COMPLETED = Reply.OK, State.COMPLETED
"""At hand, as Python 3.11 takes longer to find a member of an enum than to compare it."""


class Report(msgspec.Struct, kw_only=True):
    """What a worker did."""

    started: int = 0
    completed: int = 0
    retried: int = 0
    failed: int = 0
    snoozed: int = 0
    released: int = 0
    cancelled: int = 0
    lost: int = 0
    """Attempts whose end did not count, because the lease was gone."""
    stuck: int = 0
    """Threads that did not return after their time-out, for which the worker ended (`on_stuck="exit"`)."""
    left: list[str] = []
    """Handlers that did not stop at the end, by queue and id: their jobs were handed back, and they may still run."""
    out: ExitReason | None = None
    """Why the worker ended unasked, or before all its outcomes were settled; `None` for a normal end."""


class AttemptRecord(Ended):
    """What hooks and observers may be told of one attempt, kept until its end is settled."""

    handler: AnyTask | None = None
    value: object = UNSET
    """What the handler returned, if it did so in this process."""

    def fields(self, name: str, entry: Settlement | None) -> dict[str, Any]:
        """Return the fields of `HookEvent` for a hook of this name, beside those that say which attempt it was."""
        known: dict[str, Any] = {"task": self.claimed.task, "ran": self.ran, "waited": self.waited}
        known["counters"] = _counters(self.claimed, entry if name in COUNTED else None)
        if name in WITH_ERROR and not isinstance(self.error, asyncio.CancelledError):
            known["error"] = self.error
        if name == "complete" and isinstance(entry, Complete) and entry.then is None:
            known["result"] = self._result(entry)
        return known

    def _result(self, entry: Complete) -> object:
        if self.value is not UNSET:
            return self.value
        try:
            return None if self.handler is None else self.handler.decode_result(entry.result)
        except Exception:
            return None  # a sandbox may send anything


def _record_of(attempt: Attempt) -> AttemptRecord:
    """Return what is known of an attempt, which may still run."""
    return AttemptRecord(
        attempt.claimed, attempt.ran, attempt.error, handler=attempt.handler, value=attempt.value
    )  # fmt: skip


def _counters(claimed: Claimed, entry: Settlement | None) -> Counters:
    """Return the counters of the claim, and what this end adds."""
    cause = entry.cause if isinstance(entry, Retried | Failed | Released) else None
    name = COUNTER.get(Cause.FAILURE if cause is Cause.PERMANENT else cause) if cause is not None else None
    if name is None:
        return claimed.counters
    return msgspec.structs.replace(claimed.counters, **{name: getattr(claimed.counters, name) + 1})


class Outcomes:
    """Keep the settlements of ended attempts for the next turn; count them and tell hooks once they are settled."""

    def __init__(
        self,
        hooks: Hooks,
        current: CurrentSession,
        observer: Observers | None = None,
        retry: Callable[[Claimed], Retry] | None = None,
    ) -> None:
        self._hooks = hooks
        self._current = current
        self._observer = observer
        self._retry = retry
        """Returns what limits a job, of which an observer is told when it comes back."""
        self.report = Report()
        self.unsettled: list[Settlement] = []
        """How attempts ended, for the next turn to settle."""
        self._records: dict[Lease, Ended] = {}
        """What hooks and observers will be told of attempts that have ended and are not settled."""

    @property
    def keeps_completions(self) -> bool:
        """True when hooks or observers are told of completions."""
        return self._hooks.wants_ends or (self._observer is not None and self._observer.keeps_completions)

    def take(self) -> list[Settlement]:
        """Return what is to be settled, which the caller settles or puts back."""
        taken, self.unsettled = self.unsettled, []
        return taken

    def put_back(self, settlements: list[Settlement]) -> None:
        """Keep settlements that a turn could not settle, before those that came since."""
        self.unsettled = settlements + self.unsettled

    def remember(self, ended: Attempt | Claimed, settlement: Settlement | None = None) -> None:
        """Keep what hooks and observers will want to know of the end of an attempt, if there are any."""
        observer = self._observer
        if self._hooks.wants_ends:
            record: Ended = _record_of(ended) if isinstance(ended, Attempt) else AttemptRecord(ended)
        elif observer is None or (type(settlement) is Complete and not observer.keeps_completions):
            return
        else:
            record = Ended(ended.claimed, ended.ran, ended.error) if isinstance(ended, Attempt) else Ended(ended)
        self._records[record.claimed.lease] = record

    def keep(self, attempt: Attempt) -> None:
        """Keep, for observers, that a handler returned. It equals `remember` where no hook is told of ends."""
        self._records[attempt.claimed.lease] = Ended(attempt.claimed, attempt.ran)

    def lose(self, lease: Lease, why: str) -> None:
        """Count an attempt whose end does not count, and tell hooks and observers."""
        self._lose(lease, why, self._records.pop(lease, None))

    def _lose(self, lease: Lease, why: str, record: Ended | None) -> None:
        self.report.lost += 1
        if "lost" in self._hooks.wanted:
            self.tell("lost", lease, None, why, record)
        if self._observer is not None and record is not None:
            self._observer.lost([record], why)
        else:
            log.warning("attempt_lost: %s/%s: %s", lease.queue, lease.id, why)

    def count_all(self, entries: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        """Count what the store settled, entry by entry, and tell hooks and observers."""
        quick = "complete" not in self._hooks.wanted
        pairs = zip(entries, settled, strict=True)
        if quick and not self._records:  # nobody is told of completions
            others = [each for each in pairs if each[1].state is not _COMPLETED]
            self.report.completed += len(entries) - len(others)
            for entry, answer in others:
                self._count(entry, answer, None)
            return
        take, ended, completed = self._records.pop, list[Ended](), 0
        for entry, answer in pairs:
            record = take(entry.lease, None)
            if record is not None and answer.reply is _OK:
                record.settlement, record.settled = entry, answer
                ended.append(record)
                if quick and answer.state is _COMPLETED:
                    completed += 1
                    continue
                if type(entry) is Retried and answer.state is not State.FAILED:
                    record.retry_in = self._retry_in(entry, record)
            self._count(entry, answer, record)
        self.report.completed += completed
        if ended and self._observer is not None:
            self._observer.settled(ended)

    def _retry_in(self, entry: Retried, record: Ended) -> float | None:
        """Return the seconds until a job that is retried may run again, as far as this worker knows."""
        if entry.run_at_ms is not None:
            return max(0.0, entry.run_at_ms / 1000 - time.time())
        if entry.delay_ms is not None or self._retry is None:
            return None if entry.delay_ms is None else entry.delay_ms / 1000
        counted = getattr(_counters(record.claimed, entry), COUNTER[entry.cause])
        return self._retry(record.claimed).backoff_ms(counted) / 1000

    def _count(self, entry: Settlement, settled: Settled, record: Ended | None) -> None:
        name = TRANSITION_OF[type(entry)]
        if settled.reply is not Reply.OK:
            self._lose(entry.lease, f"its {name} came too late: {settled.reply}", record)
            return
        state = str(settled.state)
        counted = _COUNT_OF_STATE.get(state) or _COUNT_OF[name]
        setattr(self.report, counted, getattr(self.report, counted) + 1)
        transition = {"failed": "fail", "cancelled": "cancel"}.get(state, name)
        if transition in self._hooks.wanted:
            error = getattr(entry, "error", None)
            detail = f"{error.type}: {error.message}" if error else ""
            self.tell(transition, entry.lease, state, detail, record, entry)

    def tell(
        self, name: str, lease: Lease, state: str | None, detail: str = "", record: Ended | None = None,
        entry: Settlement | None = None,
    ) -> None:  # fmt: skip
        """Tell hooks of one attempt."""
        session = self._current.session
        known = record.fields(name, entry) if isinstance(record, AttemptRecord) else {}
        self._hooks.tell(
            HookEvent(
                name=name, queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt, state=state,
                worker=session.id if session else None, detail=detail, **known,
            )
        )  # fmt: skip

    def warn_of_lateness(self) -> None:
        """Log that the lease was over before the worker was heard: it still counts, as no other had noticed."""
        if (session := self._current.session) is not None:
            log.warning(
                "worker_late: %s (queues %s) was heard after its lease of %g s was over; nobody had taken its jobs",
                session.name, ", ".join(session.queues), session.lease_ms / 1000,
            )  # fmt: skip
