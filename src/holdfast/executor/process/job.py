"""A job on its way to a process, and in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...core.job import Progress
from ...core.policy import Retry
from ...core.transition import Reply
from ...store.contract import BlockerRecord, Claimed, Lease
from . import frames

Report = Callable[[Lease, Progress | None, bytes | None], Awaitable[Reply]]


class ProcessJob(msgspec.Struct, kw_only=True):
    """A job to be run in a process."""

    handler: frames.HandlerPath
    claimed: Claimed
    report: Report
    blockers: Callable[[Lease], Awaitable[list[BlockerRecord]]]
    began: Callable[[], None]
    """Called when the handler's own time begins."""
    context: dict[str, Any] | None = None
    worker: str
    """The worker's name."""
    retry: Retry
    """What limits the job."""
    session: str | None = None
    """Whose lease it is, for a handler that completes its job itself."""
    trace: dict[str, str] | None = None
    """The trace context of the attempt, as headers have it."""


class RunningJob(msgspec.Struct, eq=False):
    """A job that runs in a process, and the answer that its attempt waits for."""

    order: ProcessJob
    done: asyncio.Future[frames.Returned | frames.Raised]
    is_over_time: bool = False
    has_begun: bool = False

    def begin(self) -> None:
        """Start the handler's time-out, once, however often its process says that it began."""
        if not self.has_begun:
            self.has_begun = True
            self.order.began()
