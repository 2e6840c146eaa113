"""A job on its way to a process, and in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...core.job import Progress
from ...core.transition import Reply
from ...store.contract import BlockerRecord, Claimed, Lease
from . import wire

Report = Callable[[Lease, Progress | None, bytes | None], Awaitable[Reply]]


class Order(msgspec.Struct, kw_only=True):
    """A job to be run in a process."""

    handler: wire.Handler
    claimed: Claimed
    report: Report
    blockers: Callable[[Lease], Awaitable[list[BlockerRecord]]]
    began: Callable[[], None]
    """Called when the handler's own time begins."""
    context: dict[str, Any] | None = None


class Running(msgspec.Struct, eq=False):
    """A job that runs in a process, and the answer that its attempt waits for."""

    order: Order
    done: asyncio.Future[wire.Returned | wire.Raised]
    is_over_time: bool = False
    has_begun: bool = False

    def begin(self) -> None:
        """The handler's own time begins: once, whatever its process says of it."""
        if not self.has_begun:
            self.has_begun = True
            self.order.began()
