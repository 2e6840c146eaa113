"""Settings, policies and schedules, and who is told of what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from ...core.action import Action
from ...core.bound import DUE_AT_ONCE
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.state import State
from ...core.transition import Reply
from .produce import KEEP, Answer, Conflict, NewJob
from .work import SessionCommand


class Finding(msgspec.Struct, frozen=True):
    """One thing about a store that was looked at, for people."""

    name: str
    verdict: Literal["ok", "warning", "problem"]
    """A warning is about a choice that is allowed, with something that may be lost."""
    detail: str
    advice: str = ""
    """What to do, unless it is well."""


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as stores keep it: the body is for `core.schedule` alone."""

    queue: str
    name: str
    revision: str
    """Another one with every change, made by the process that makes the change."""
    next_at_ms: int | None
    body: bytes


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule is to become, if it is still as it was read."""

    queue: str
    name: str
    expected: str | None
    """The revision that was read; `None`: there was no such schedule."""
    revision: str
    next_at_ms: int | None = None
    body: bytes | None = None
    """`None`: the schedule is removed."""
    action: Action | None = None
    """What the log says of the change; `None` when it is that a tick was fired."""


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a change: `stale` when the schedule is another one by now, `missing` when it is gone."""

    reply: Reply
    answers: list[Answer] = []


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules whose tick has come, and when the next one's does."""

    now_ms: int
    rows: list[ScheduleRow] = []
    next_at_ms: int | None = None
    """Of those that are not due yet; `None` when there is none."""


class Finished(msgspec.Struct, frozen=True):
    """What a waiter hears: which run ended, and how; or, with the state `active`, that it got further."""

    queue: str
    id: str
    run: int
    state: State
    result: bytes | None = None
    """That of a completed run which is no part of a chain, where the store sends it along; else it is asked for."""


class Listener(Protocol):
    """Where this process is woken: workers park on it, callers wait for results on it."""

    address: str

    def close(self) -> None:
        """Stop listening."""


class Operating(Protocol):
    """Settings, schedules and listeners."""

    async def configure(self, queue: str, set: Mapping[str, object], clear: Sequence[str] = ()) -> QueueSettings:
        """Put an operator's settings of a queue in force, above what workers declare; take the cleared ones away."""

    async def adjust(self, queue: str, task: str, set: Mapping[str, object], clear: Sequence[str] = ()) -> Policy:
        """Put an operator's settings of a task in force, above what workers declare; take the cleared ones away."""

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """Give one key a concurrency of its own; `None` takes it away."""

    async def command(self, session: str, command: SessionCommand) -> bool:
        """Tell a worker, by the id of its session, to drain or stop; return whether it was alive to be told.

        Its heartbeats hear of it until its session is over. `stop` counts above `drain`.
        """

    async def put_schedule(
        self, change: ScheduleChange, jobs: Sequence[NewJob] = (), conflict: Conflict = KEEP
    ) -> Fired:
        """Change a schedule and enqueue jobs, in one step; with another reply than `ok`, nothing is done.

        Its new revision is the request id: a repeat gets the first answer.
        """

    async def schedules(self, queue: str | None = None, name: str | None = None) -> list[ScheduleRow]:
        """Return every schedule, or those of one queue or name, by queue and name."""

    async def due(self, queues: Sequence[str], limit: int = DUE_AT_ONCE) -> Due:
        """Return schedules of these queues whose tick has come, at most `limit`, the longest overdue first."""

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        """Return a listener. Its callbacks run in this event loop: a parked session has work, a watched run ended."""

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        """Tell the listener when the run ends. False: it has ended already, or is not there."""

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        """Tell the listener nothing more of the run."""

    async def doctor(self) -> list[Finding]:
        """Return what is to be said of the store itself."""
