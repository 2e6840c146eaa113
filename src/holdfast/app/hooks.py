"""Hooks: functions that hear what happens. One that raises is reported and harms nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakSet

import msgspec

from ..core.policy import Counters
from ..core.transition import TRANSITIONS
from ..errors import ConfigError
from ..telemetry.observer import Observer, WorkerEvent

log = logging.getLogger("holdfast")

WORKER_EVENTS = (
    "worker_started",
    "worker_stopping",
    "worker_stopped",
    "worker_out",
    "worker_error",
    "lease_lost",
    "store_lost",
    "store_back",
    "lost",
    "wakeup_degraded",
    "wakeup_restored",
    "schedule_fired",
)
KNOWN = (*TRANSITIONS, *WORKER_EVENTS)
ENDS = frozenset({"complete", "retry", "fail", "snooze", "release", "cancel", "lost"})
"""What hooks hear of the ends of attempts."""


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook hears. Fields that do not apply are `None`."""

    name: str
    queue: str | None = None
    id: str | None = None
    run: int | None = None
    attempt: int | None = None
    task: str | None = None
    state: str | None = None
    worker: str | None = None
    counters: Counters | None = None
    """Those of the claim, and what this end has added."""
    waited: float | None = None
    """Seconds from when the job was due to its claim."""
    ran: float | None = None
    """Seconds from the handler's start to its end."""
    result: Any = None
    error: BaseException | None = None
    detail: str = ""


Hook = Callable[[HookEvent], object]


class Hooks:
    """Who wants to hear of what."""

    def __init__(self, parent: Hooks | None = None) -> None:
        self._parent = parent
        self._by_name: dict[str, list[Hook]] = {}
        self._children: WeakSet[Hooks] = WeakSet()
        self.wanted: set[str] = set()
        """What some hook wants to hear of, here or in the parent. A hot path looks here before it tells anything."""
        self.wants_ends = False
        """Whether some hook wants to hear how attempts end."""
        if parent is not None:
            self._want(tuple(parent.wanted))
            parent._children.add(self)
        self._running: set[asyncio.Task[object]] = set()

    def add(self, name: str, hook: Hook) -> None:
        """The hook hears of every such happening; `"*"` is all of them."""
        if name != "*" and name not in KNOWN:
            raise ConfigError(f"{name!r} is nothing that a hook can hear of; known are *, {', '.join(KNOWN)}")
        self._by_name.setdefault(name, []).append(hook)
        self._want(KNOWN if name == "*" else (name,))

    def _want(self, names: Sequence[str]) -> None:
        self.wanted.update(names)
        self.wants_ends = not ENDS.isdisjoint(self.wanted)
        for child in self._children:
            child._want(names)

    def tell(self, happening: HookEvent) -> None:
        """Every hook that wants it has been called; asynchronous ones have been started."""
        if self._parent is not None:
            self._parent.tell(happening)
        for hook in (*self._by_name.get(happening.name, ()), *self._by_name.get("*", ())):
            try:
                outcome = hook(happening)
                if inspect.isawaitable(outcome):
                    self._start(happening.name, outcome)
            except KeyboardInterrupt:
                raise
            except BaseException:  # also a CancelledError, which would end the worker as if it had been cancelled
                log.exception("hook_failed: a hook for %s raised", happening.name)

    async def ended(self, within: float) -> None:
        """Wait until the asynchronous hooks that were started have ended, the parent's too; for so long at most."""
        running = {*self._running, *(self._parent._running if self._parent is not None else ())}
        if running:
            await asyncio.wait(running, timeout=within)

    def _start(self, name: str, outcome: Awaitable[object]) -> None:
        async def run() -> None:
            try:
                await outcome
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # the program ends
                log.exception("hook_failed: a hook for %s raised", name)

        task = asyncio.get_running_loop().create_task(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)


TOLD_OTHERWISE = frozenset({"lost"})
"""Hooks of attempts, of which observers hear many at once."""


def tell_of_life(observer: Observer, hooks: Hooks) -> None:
    """Have the observer hear what these hooks hear of a worker's life."""

    def tell(event: HookEvent) -> None:
        observer.happened(
            WorkerEvent(
                name=event.name, worker=event.worker, queue=event.queue, id=event.id, run=event.run,
                detail=event.detail, error=event.error,
            )
        )  # fmt: skip

    for name in WORKER_EVENTS:
        if name not in TOLD_OTHERWISE:
            hooks.add(name, tell)
