"""A job as stores keep it and clients see it."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, overload

import msgspec

from .bound import MOST_RUN
from .chain import ChainRef
from .duration import LATEST_MS, to_datetime
from .envelope import EMPTY, Envelope
from .policy import Counters
from .state import State


@overload
def run_number(given: int) -> int: ...
@overload
def run_number(given: int | None) -> int | None: ...
def run_number(given: int | None) -> int | None:
    """Return the number of a run; 0, which none has, for what no run can have. `None` stays none."""
    return given if given is None or (type(given) is int and 0 < given <= MOST_RUN) else 0


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt that went wrong leaves behind."""

    type: str
    message: str
    kind: str = "failure"
    traceback: str = ""
    fields: dict[str, Any] = {}

    @property
    def signature(self) -> str:
        """The same for errors of the same kind from the same place, whatever numbers they mention."""
        places = re.findall(r'File "[^"]*?([^"/\\]+)", line \d+, in (\S+)', self.traceback)
        shape = re.sub(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"", "#", self.message)
        text = "|".join([self.type, shape, *(f"{file}:{name}" for file, name in places[-3:])])
        return hashlib.blake2s(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a handler says that it is."""

    fraction: float | None = None
    message: str = ""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job, as it stands in the store. Instants are milliseconds since the epoch."""

    queue: str
    id: str
    run: int
    task: str | None
    state: State
    payload: bytes
    priority: int = 0
    key: str | None = None
    run_at_ms: int
    enqueued_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    counters: Counters = Counters()
    worker: str | None = None
    result: bytes | None = None
    error: ErrorRecord | None = None
    progress: Progress | None = None
    checkpoint: bytes | None = None
    envelope: Envelope = EMPTY
    holds_id: bool = True
    expires_at_ms: int | None = None
    """When a finished run is removed."""
    cancel_requested: bool = False
    successor: bool = False
    """True when another dispatch of this id waits for this run to end."""
    chain: ChainRef | None = None
    """The first job of its chain; `None` for a job that neither continued nor continues another."""
    position: int = 0
    """Its place in its chain: 0 for the first job."""
    chain_state: State | None = None
    """Of a first job that continued: `active` while its chain goes on, then how the chain ended."""
    blockers: int = 0
    """How many of its blockers are still open."""
    snoozes: int = 0
    """How often its handler asked to run later."""
    company: int | None = None
    """Of a suspect, which stalled: at most so many jobs, itself included, run where it is tried next."""

    @property
    def headers(self) -> dict[str, str]:
        """What its caller sent along beside the payload: a copy, as jobs without headers share one empty envelope."""
        return dict(self.envelope.headers)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that its caller gave it."""
        return self.envelope.tags

    @property
    def outcome(self) -> State:
        """Where the chain that this job began stands; for a job that did not continue, its own state."""
        return self.state if self.chain_state is None else self.chain_state

    @property
    def continued(self) -> bool:
        """True when it completed and another job of its chain took over: the chain has the result, not this job."""
        ended = self.position > 0 and self.result is not None
        return self.chain is not None and self.state is State.COMPLETED and not ended

    @property
    def run_at(self) -> datetime:
        """When it may run, or could have."""
        return datetime.fromtimestamp(min(self.run_at_ms, LATEST_MS) / 1000, UTC)

    @property
    def enqueued_at(self) -> datetime:
        """When it was taken in."""
        return datetime.fromtimestamp(self.enqueued_at_ms / 1000, UTC)

    @property
    def started_at(self) -> datetime | None:
        """When its last attempt began."""
        return to_datetime(self.started_at_ms)

    @property
    def finished_at(self) -> datetime | None:
        """When it was over."""
        return to_datetime(self.finished_at_ms)

    @property
    def failing(self) -> bool:
        """True for a job that failed before and will run again."""
        return self.state in (State.WAITING, State.SCHEDULED) and self.counters.failures > 0
