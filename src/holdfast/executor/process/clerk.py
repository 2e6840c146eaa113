"""The clerk: answers what a process asks of the store for its jobs, a bounded number of questions at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from ...core.transition import Reply
from ...job import check_report
from ...store.contract import BlockerRecord
from . import wire
from .order import Running

log = logging.getLogger("holdfast")
AT_ONCE = 100
"""With more questions open than this, a process is not listened to until some are answered."""


class Clerk:
    """`send` takes the answers; `listen` is told whether there is time for more questions."""

    def __init__(
        self, runs: Mapping[int, Running], send: Callable[[wire.ToProcess], None], listen: Callable[[bool], None]
    ) -> None:
        self._runs = runs
        self._send = send
        self._listen = listen
        self._open: set[asyncio.Task[None]] = set()

    def ask(self, frame: wire.Report | wire.Blockers) -> None:
        """The question will be answered."""
        work = self._report(frame) if isinstance(frame, wire.Report) else self._blockers(frame)
        self._begin(work)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._open.add(task)
        task.add_done_callback(self._answered)
        if len(self._open) == AT_ONCE:
            self._listen(False)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if len(self._open) == AT_ONCE - 1:
            self._listen(True)

    async def _blockers(self, frame: wire.Blockers) -> None:
        running = self._runs.get(frame.number)
        found: list[BlockerRecord] | None = None
        if running is not None:
            try:
                found = await running.order.blockers(running.order.claimed.lease)
            except Exception as error:
                log.warning("what %s waited for could not be read: %s", running.order.claimed.lease, error)
        self._send(wire.Waited(frame.call, found))

    async def _report(self, frame: wire.Report) -> None:
        running = self._runs.get(frame.number)
        reply = Reply.STALE
        if running is not None:
            try:
                check_report(frame.progress, frame.checkpoint)
                reply = await running.order.report(running.order.claimed.lease, frame.progress, frame.checkpoint)
            except Exception as error:
                log.warning("progress of %s could not be stored: %s", running.order.claimed.lease, error)
        self._send(wire.Heard(frame.call, str(reply)))
