"""The store calls of a process: what it asks of the store for its jobs, answered some at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping

from ...core.transition import Reply
from ...handler.job import check_report
from ...store.contract import BlockerRecord
from . import frames
from .job import RunningJob

log = logging.getLogger("holdfast")
AT_ONCE = 100
"""With more questions open than this, a process is not listened to until some are answered."""


class StoreCalls:
    """Answer the store calls of a process; `send` takes the answers, `listen` pauses and resumes its questions."""

    def __init__(
        self, runs: Mapping[int, RunningJob], send: Callable[[frames.ToProcess], None], listen: Callable[[bool], None]
    ) -> None:
        self._runs = runs
        self._send = send
        self._listen = listen
        self._open: set[asyncio.Task[None]] = set()

    def ask(self, frame: frames.ProgressReport | frames.BlockersQuery) -> None:
        """Answer the question, in a task of its own."""
        work = self._report(frame) if isinstance(frame, frames.ProgressReport) else self._blockers(frame)
        self._begin(work)

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._open.add(task)
        task.add_done_callback(self._answered)
        if len(self._open) == AT_ONCE:
            self._listen(False)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if len(self._open) == AT_ONCE - 1:
            self._listen(True)

    async def _blockers(self, frame: frames.BlockersQuery) -> None:
        running = self._runs.get(frame.number)
        found: list[BlockerRecord] | None = None
        if running is not None:
            try:
                found = await running.order.blockers(running.order.claimed.lease)
            except Exception as error:
                log.warning(
                    "blockers_unread: what %s waited for could not be read: %s", running.order.claimed.lease, error
                )
        self._send(frames.BlockersReply(frame.call, found))

    async def _report(self, frame: frames.ProgressReport) -> None:
        running = self._runs.get(frame.number)
        reply = Reply.STALE
        if running is not None:
            try:
                check_report(frame.progress, frame.checkpoint)
                reply = await running.order.report(running.order.claimed.lease, frame.progress, frame.checkpoint)
            except Exception as error:
                log.warning(
                    "progress_failed: progress of %s could not be stored: %s", running.order.claimed.lease, error
                )
        self._send(frames.ProgressReply(frame.call, str(reply)))
