"""One asyncio task for many attempts, whose handlers run one after the other for as long as none of them waits.

A task of its own would cost a job that does not wait more than its handler does. A handler that waits keeps the task
for itself from then on, and the attempts behind it get tasks of their own. Each has its own context in either way.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from typing import Any

from ...app.task import AnyTask
from .attempt import Attempt

Run = Callable[[Attempt], Coroutine[Any, Any, None]]
"""Returns what runs an attempt."""


class AttemptTasks:
    """Gives attempts their tasks: handlers that did not wait the last time share one."""

    def __init__(self) -> None:
        self._waits: set[AnyTask] = set()
        """Those whose handlers waited the last time that one of them was tried in a shared task."""

    def start(self, attempts: Sequence[Attempt], run: Run) -> None:
        """Start the handlers of these attempts, in this order."""
        loop = asyncio.get_running_loop()
        for part in self._parts(attempts) if len(attempts) > 1 else attempts:
            if isinstance(part, Attempt):
                part.begin_alone(loop, run(part))
            else:
                loop.create_task(self._run_shared(part, run))

    def _parts(self, attempts: Sequence[Attempt]) -> list[deque[Attempt] | Attempt]:
        """Return what shares a task, and what has one of its own."""
        parts, shared, tried = list[deque[Attempt] | Attempt](), deque[Attempt](), set[AnyTask]()
        for attempt in attempts:
            handler = attempt.handler
            if handler.runs_in == "inline" and handler not in self._waits:
                if not shared:
                    parts.append(shared)
                shared.append(attempt)
                continue
            shared = deque()  # those that follow come after it
            if handler.runs_in == "inline" and handler not in tried:  # one in each turn, to see whether it still waits
                tried.add(handler)
                parts.append(deque((attempt,)))
            else:
                parts.append(attempt)
        return parts

    async def _run_shared(self, attempts: deque[Attempt], run: Run) -> None:
        task, waits = asyncio.current_task(), self._waits
        assert task is not None
        try:
            while attempts and not task.cancelling():  # a handler may cancel its task, which is nobody else's business
                attempt = attempts.popleft()
                context, coroutine = copy_context(), run(attempt)
                try:
                    awaited = context.run(coroutine.send, None)
                except StopIteration:
                    if waits:
                        waits.discard(attempt.handler)
                    continue
                waits.add(attempt.handler)
                attempt.keep_task(task)
                self._begin_alone(attempts, run)
                await _rest(context, coroutine, awaited)
        finally:
            self._begin_alone(attempts, run)

    def _begin_alone(self, attempts: deque[Attempt], run: Run) -> None:
        while attempts:
            attempt = attempts.popleft()
            attempt.begin_alone(asyncio.get_running_loop(), run(attempt))


@types.coroutine
def _rest(context: Context, coroutine: Coroutine[Any, Any, None], awaited: object) -> Generator[Any, Any, None]:
    """Go on with a coroutine that waits, as the task would by itself, but in the context of the coroutine."""
    while True:
        try:
            sent = yield awaited
        except BaseException as error:
            step: Callable[[Any], Any] = coroutine.throw
            sent = error
        else:
            step = coroutine.send
        try:
            awaited = context.run(step, sent)
        except StopIteration:
            return
        finally:
            sent = None  # an error's traceback leads back here
