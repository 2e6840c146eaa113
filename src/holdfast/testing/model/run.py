"""One run as it must stand, and what a further dispatch of its id brings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...core.chain import OPEN
from ...core.policy import Counters
from ...core.state import State
from ...store.contract import NewJob, UpdateRunAt


@dataclass
class ModelWait:
    """One chain that a run waits for, or waited for."""

    id: str
    first: int | None
    """The run of the chain's first job, while it is open."""
    state: State | None = None
    result: bytes | None = None


@dataclass
class ModelRun:
    """One run as it must stand."""

    run: int
    id: str
    payload: bytes
    priority: int
    key: str | None
    run_at: int
    enqueued_at: int
    dedup: str | None
    state: State
    counters: Counters = field(default_factory=Counters)
    session: str | None = None
    snoozes: int = 0
    spared: int = 0
    """How many of its attempts do not count towards the cap on all of them."""
    company: int | None = None
    """Of a suspect: how many jobs may run where it is tried next."""
    cancel: bool = False
    held: bool = True
    requeued: bool = False
    free_at: int | None = None
    expires_at: int | None = None
    absorbed: set[int] = field(default_factory=set)
    exits: dict[int, tuple[str, str]] = field(default_factory=dict)
    """How each attempt ended: by which session, by which settlement."""
    result: bytes | None = None
    chain: int | None = None
    """The run of its chain's first job, once there is more than one."""
    position: int = 0
    chain_state: str | None = None
    """Of a first job that continued: `OPEN`, or how its chain ended."""
    tail: int | None = None
    """Of a first job that continued: the run of the latest job."""
    waits: list[ModelWait] = field(default_factory=list)
    policy: str = "fail"

    @property
    def outcome(self) -> State:
        """Where the chain stands that it began; or it alone."""
        if self.chain_state is None:
            return self.state
        return State.ACTIVE if self.chain_state == OPEN else State(self.chain_state)

    @property
    def open(self) -> int:
        """How many of the chains that it waits for are not over."""
        return sum(wait.first is not None for wait in self.waits)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among the jobs of its key."""
        return (-self.priority, self.run_at, self.run)

    def seen(self, now: int, successor: bool) -> tuple[Any, ...]:
        """Return what a look at it must show."""
        holds = self.held and not (self.free_at is not None and self.free_at <= now)
        return (
            self.run, self.state, self.counters, self.payload, self.priority, self.key, self.run_at,
            holds, self.cancel, successor, self.result, self.chain, self.position,
            None if self.chain_state is None else self.outcome, self.open,
            None if self.state.finished else self.company, self.snoozes,
        )  # fmt: skip


@dataclass
class ModelSuccessor:
    """Another dispatch of an id whose run is active."""

    run: int
    job: NewJob
    run_at: int
    enqueued_at: int
    dedup: str | None
    payload: bool
    mode: UpdateRunAt
    resets: bool


def starts_at(now: int, job: NewJob) -> int:
    """Return when a job may run, a past time raised to now."""
    return max(now, job.run_at_ms) if job.run_at_ms is not None else now + max(job.delay_ms or 0, 0)


def by_time(now: int, run_at: int) -> State:
    """Return whether a job with this time waits for it, or for a worker."""
    return State.SCHEDULED if run_at > now else State.WAITING


def moved(current: int, mode: UpdateRunAt, wanted: int) -> int:
    """Return a run_at after an update by this mode."""
    if mode == "always":
        return wanted
    if mode == "never":
        return current
    return max(current, wanted) if mode == "if_later" else min(current, wanted)


def counted(counters: Counters, name: str) -> Counters:
    """Return the counters with one of them raised."""
    values = {field: getattr(counters, field) for field in Counters.__struct_fields__}
    return Counters(**{**values, name: values[name] + 1})
