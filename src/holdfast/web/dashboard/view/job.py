"""One job: everything that the store keeps of it, and what may be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....core.event import Event
from ....core.job import JobRecord
from ....core.policy import Policy
from ....core.state import PENDING, State

COUNTED = ("attempts", "failures", "timeouts", "stalls", "releases", "snoozes")


@dataclass(frozen=True)
class Deed:
    """An action that the state of a job allows."""

    name: str
    label: str
    hint: str
    danger: bool = False
    running: str = ""
    """How a running job is treated by `cancel`."""


PROMOTE = Deed("promote", "Run now", "It may be claimed now, and not only when its time has come.")
REQUEUE = Deed("requeue", "Requeue", "It runs anew, as its next run, with the same payload and fresh counters.")
DELETE = Deed("delete", "Delete", "It is gone, with its payload, result and error. This cannot be undone.", danger=True)
CANCEL = Deed("cancel", "Cancel", "It will not run. Its id is free at once.", danger=True)
SIGNAL = Deed(
    "cancel", "Cancel", "Its handler is told to stop. If it completes all the same, that stands.", True, "signal"
)
KILL = Deed(
    "cancel", "Kill", "Its process is stopped, where it runs in one of its own; else it is told to stop.", True, "kill"
)


def deeds(job: JobRecord) -> list[Deed]:
    """Return what the state of a job allows, and only that."""
    if not job.holds_id and job.state.finished:
        return [REQUEUE]
    if job.state is State.SCHEDULED:
        return [PROMOTE, CANCEL, DELETE]
    if job.state in PENDING:
        return [CANCEL, DELETE]
    if job.state is State.ACTIVE:
        return [KILL, DELETE] if job.cancel_requested else [SIGNAL, KILL, DELETE]
    return [REQUEUE, DELETE]


@dataclass(frozen=True)
class Counter:
    """One counter of a job, and the limit at which it is final."""

    name: str
    value: int
    limit: int | None
    source: str

    @property
    def spent(self) -> bool:
        """True at its limit."""
        return self.limit is not None and self.value >= self.limit


def counters(job: JobRecord, policy: Policy, sources: dict[str, str]) -> list[Counter]:
    """Return how often the job was started and came back, beside what it may."""
    values = {name: getattr(job.counters, name, None) for name in COUNTED} | {"snoozes": job.snoozes}
    return [
        Counter(name, int(values[name] or 0), getattr(policy.retry, name), sources.get(name, "library"))
        for name in COUNTED
    ]


def runs(events: Sequence[Event], current: int) -> list[int]:
    """Return the runs of an id that the log still has, the newest first."""
    return sorted({event.run for event in events if event.run} | {current}, reverse=True)
