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
from time import monotonic
from typing import Any, Literal, NamedTuple

from ...app.task import AnyTask
from ...executor.quick_call import QuickCall, quick_call
from ...store.contract import Complete
from ...store.prompt import Prompt
from ...telemetry import traces
from .attempt import Attempt
from .first_step import first_step, is_usual

Run = Callable[[Attempt], Coroutine[Any, Any, None]]
"""Returns what runs an attempt."""
Pace = Literal["slowly", "timed", "quickly"]
"""Whether handlers are called the quick way, and whether the time at which each of them ended is wanted."""
Completed = Callable[[list[Attempt], list[Complete]], None]
"""Takes attempts whose handlers have returned, with their settlements."""


class SharedPart(NamedTuple):
    """Attempts that share a task, in this order."""

    attempts: deque[Attempt]
    run: Run
    pace: Pace
    tracing: traces.Tracing | None


class AttemptTasks:
    """Gives attempts their tasks: handlers that did not wait the last time share one, which is kept for the next."""

    def __init__(self, completed: Completed) -> None:
        self._completed = completed
        self._waits: set[AnyTask] = set()
        """Those whose handlers waited the last time that one of them was tried in a shared task, or run elsewhere."""
        self._quick: dict[AnyTask, QuickCall | None] = {}
        """The quick way to call the handler of each task, where it has one."""
        self._kept: Prompt[SharedPart | None] | None = None
        """What the task waits for that is kept."""

    @property
    def any_waits(self) -> bool:
        """True while some handlers are known to keep their slots for longer than a step takes."""
        return bool(self._waits)

    def start(
        self, attempts: Sequence[Attempt], run: Run, pace: Pace = "slowly", tracing: traces.Tracing | None = None
    ) -> None:
        """Start the handlers of these attempts, in this order. `tracing` makes spans, if they are made."""
        loop = asyncio.get_running_loop()
        alone = len(attempts) == 1 and (pace == "slowly" or attempts[0].handler in self._waits)
        for part in attempts if alone else self._parts(attempts):
            if isinstance(part, Attempt):
                part.begin_alone(loop, run(part))
            else:
                self._share(loop, SharedPart(part, run, pace, tracing))

    def _share(self, loop: asyncio.AbstractEventLoop, part: SharedPart) -> None:
        """Run these attempts in the task that is kept, or in a new one."""
        kept, self._kept = self._kept, None
        if kept is not None and kept.loop is loop and not kept.done:
            kept.tell(part)
        else:
            loop.create_task(self._run_parts(part))

    async def _run_parts(self, part: SharedPart | None) -> None:
        """Run one part after the other, for as long as no handler keeps the task for itself."""
        while part is not None and await self._run_shared(part) and self._kept is None:
            part, kept = None, Prompt[SharedPart | None](asyncio.get_running_loop())
            self._kept = kept
            try:
                part = await kept
            except asyncio.CancelledError:
                if kept.done and not kept.failed and (told := kept.result()) is not None:
                    kept.loop.create_task(self._run_parts(told))  # which it was given a moment before
                raise

    def close(self) -> None:
        """End the task that is kept."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.tell(None)

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
                self._waits.add(handler)
                parts.append(attempt)
        return parts

    async def _run_shared(self, part: SharedPart) -> bool:
        """Run the attempts; return whether the task is free for others."""
        attempts, run, pace, tracing = part
        task, waits, returned = asyncio.current_task(), self._waits, ReturnedAttempts(self._completed)
        assert task is not None
        try:
            while attempts and not task.cancelling():  # a handler may cancel its task, which is nobody else's business
                attempt = attempts.popleft()
                context = copy_context()
                quick = self._quick_call(attempt) if pace != "slowly" else None
                step = context.run(first_step, attempt, quick, tracing) if quick is not None else None
                if isinstance(step, Complete):
                    if pace == "timed":
                        attempt.ended = monotonic()
                    returned.add(attempt, step)
                    if waits:
                        waits.discard(attempt.handler)
                    continue
                returned.pass_on()
                coroutine = step or run(attempt)
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
                return False
            return not task.cancelling()
        finally:
            returned.pass_on()
            self._begin_alone(attempts, run)

    def _quick_call(self, attempt: Attempt) -> QuickCall | None:
        handler = attempt.handler
        try:
            quick = self._quick[handler]
        except KeyError:
            quick = self._quick[handler] = quick_call(handler)
        return quick if quick is not None and is_usual(attempt) else None

    def _begin_alone(self, attempts: deque[Attempt], run: Run) -> None:
        while attempts:
            attempt = attempts.popleft()
            attempt.begin_alone(asyncio.get_running_loop(), run(attempt))


class ReturnedAttempts:
    """Attempts whose handlers have returned one after the other, to be passed on together."""

    __slots__ = ("_attempts", "_completed", "_settlements")

    def __init__(self, completed: Completed) -> None:
        self._completed = completed
        self._attempts: list[Attempt] = []
        self._settlements: list[Complete] = []

    def add(self, attempt: Attempt, settlement: Complete) -> None:
        """Keep an attempt until those of its task are passed on."""
        self._attempts.append(attempt)
        self._settlements.append(settlement)

    def pass_on(self) -> None:
        """Pass on what was kept."""
        if self._attempts:
            attempts, self._attempts = self._attempts, []
            settlements, self._settlements = self._settlements, []
            self._completed(attempts, settlements)


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
