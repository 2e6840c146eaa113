"""Calls: an enqueue and the wait for its result, for callers who do nothing between the two.

Those who call at the same time share an enqueue, and each goes on once, with its result: the answer to the enqueue
wakes none of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ..core.bound import ASKED_AT_ONCE, MOST_CALL_BYTES
from ..core.duration import Duration
from ..core.state import FINISHED
from ..store.batching import Gather
from ..store.contract import KEEP, Answer, Conflict, Listener, NewJob
from ..store.prompt import Prompt
from .wait import POLL, Waiter, Waiting, seconds_of

Enqueue = Callable[[str, Sequence[NewJob]], Awaitable[Sequence[Answer]]]


class WaitingCall(msgspec.Struct, eq=False):
    """One caller, and what became of its enqueue."""

    job: NewJob
    seconds: float | None
    waiter: Waiter | None = None
    """Of a caller that others call beside: it goes on with the result."""
    answer: Answer | None = None
    answered_at: float = 0.0


class Calls:
    """The calls of one client, in its event loop."""

    def __init__(self, enqueue: Enqueue, waiting: Waiting) -> None:
        self._enqueue = enqueue
        self._waiting = waiting
        self._gather: Gather[str, WaitingCall, Answer] = Gather(
            self._enqueue_all, ASKED_AT_ONCE, _size, MOST_CALL_BYTES, lingers=True
        )

    @staticmethod
    def takes(job: NewJob, conflict: Conflict) -> bool:
        """Return whether a job may share an enqueue: it has a new id, and is taken in whatever the store knows."""
        return job.fresh and conflict is KEEP and job.dedup is None and not job.blockers

    async def result(self, listener: Listener, queue: str, job: NewJob, timeout: Duration | None) -> bytes:
        """Enqueue a job that the listener watches, and return its encoded result."""
        waiting, seconds = self._waiting, seconds_of(timeout)
        if self._gather.is_free(queue):
            call = WaitingCall(job, seconds)
            answer = await self._gather.ask(queue, call)
            which, over = (queue, answer.id, answer.run), answer.state in FINISHED
            return await waiting.result(listener, which, timeout, not over, over, since=call.answered_at)
        waiter: Waiter = Prompt(asyncio.get_running_loop())
        call, told = WaitingCall(job, seconds, waiter), None
        self._gather.put(queue, call)
        try:
            told = await waiter
        finally:
            if told is None and call.answer is not None:
                waiting.forget(listener, (queue, call.answer.id, call.answer.run), waiter)
        if told is not None and told.result is not None:
            return told.result
        assert call.answer is not None
        which, over = (queue, call.answer.id, call.answer.run), told is not None or call.answer.state in FINISHED
        return await waiting.result(listener, which, timeout, over=over, since=call.answered_at)

    async def _enqueue_all(self, queue: str, calls: Sequence[WaitingCall]) -> Sequence[Answer]:
        try:
            answers = await self._enqueue(queue, [call.job for call in calls])
        except BaseException as error:
            for call in calls:
                if call.waiter is not None:
                    call.waiter.fail(error)
            raise
        waiting, now = self._waiting, time.monotonic()
        clock = waiting.deadlines.loop.time()
        for call, answer in zip(calls, answers, strict=True):
            call.answer, call.answered_at = answer, now
            if (waiter := call.waiter) is None:
                continue
            if answer.state in FINISHED:
                waiter.tell(None)
            else:
                seconds = call.seconds
                until = clock + (POLL if seconds is None or seconds > POLL else seconds)
                waiting.expect((queue, answer.id, answer.run), waiter, until)
        return answers


def _size(call: WaitingCall) -> int:
    return len(call.job.payload)
