"""What the demo's screen shows, read from the store while the shop works."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ..app.app import Holdfast
from ..core.event import Event
from ..core.state import UNFINISHED
from ..store.contract import QueueInfo, SessionInfo
from .worker_processes import DemoWorker

BULK = {"orders", "photos"}
QUIET = {"enqueue", "claim", "complete"}
"""Transitions of the bulk queues that are not shown, because there are too many."""
NEWEST = 6
SECONDS_SHOWN = 40


@dataclass
class DemoStep:
    """One step of the demo, and its outcome."""

    title: str
    mark: Literal["doing", "done", "wrong"] = "doing"
    detail: str = ""

    def done(self, detail: str) -> None:
        """Mark the step as done."""
        self.mark, self.detail = "done", detail


@dataclass
class Board:
    """Everything that the screen shows."""

    app: Holdfast
    workers: list[DemoWorker] = field(default_factory=list)
    steps: list[DemoStep] = field(default_factory=list)
    queues: list[QueueInfo] = field(default_factory=list)
    sessions: list[SessionInfo] = field(default_factory=list)
    newest: deque[Event] = field(default_factory=lambda: deque(maxlen=NEWEST))
    per_second: dict[int, int] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    _position: str | None = None
    _refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def age(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.began

    @contextmanager
    def step(self, title: str) -> Iterator[DemoStep]:
        """Show a step while the block runs; mark it wrong if the block raises."""
        step = DemoStep(title)
        self.steps.append(step)
        try:
            yield step
        except BaseException as error:
            step.mark, step.detail = "wrong", f"{type(error).__name__}: {error}"
            raise

    async def refresh(self) -> None:
        """Read queues, workers and new events from the store."""
        async with self._refreshing:
            self.queues = await self.app.queues()
            self.sessions = await self.app.workers()
            async for event in self.app.events(after=self._position):
                self._position = event.position
                self._add(event)

    def _add(self, event: Event) -> None:
        if event.transition == "complete":
            second = int(self.age)
            self.per_second[second] = self.per_second.get(second, 0) + 1
        if event.queue not in BULK or event.transition not in QUIET:
            self.newest.append(event)

    def session_of(self, worker: DemoWorker) -> SessionInfo | None:
        """Return the session of a worker process."""
        return next((info for info in self.sessions if info.session.pid == worker.pid), None)

    def count(self, *states: str) -> int:
        """Return how many jobs of all queues are in one of these states."""
        return sum(queue.counts.get(state, 0) for queue in self.queues for state in states)

    @property
    def open(self) -> int:
        """How many jobs are not finished."""
        return self.count(*UNFINISHED)

    def rates(self) -> list[int]:
        """Return completed jobs per second, for the last seconds."""
        now = int(self.age)
        return [self.per_second.get(second, 0) for second in range(max(0, now - SECONDS_SHOWN), now)]
