"""Queues that a worker cannot serve for trouble of its own: they are left alone for a while, longer each time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ..hook import Happening, Hooks

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Barred:
    """Which queues are not asked for now, and until when. `later` rings a bell after so many seconds."""

    def __init__(self, hooks: Hooks, later: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._hooks = hooks
        self._later = later
        self._clock = clock
        self._pauses: dict[str, float] = {}
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def bar(self, queue: str, error: BaseException) -> None:
        """A handler of the queue could not be started; many that could not at once are one trouble."""
        if self._clock() < self._until.get(queue, 0.0):
            return
        pause = self._pauses[queue] = min(self._pauses.get(queue, FIRST_PAUSE / 2) * 2, LONGEST_PAUSE)
        self._until[queue] = self._clock() + pause
        self._later(pause)
        log.error(
            "worker_error: queue %s: this worker cannot start handlers, so jobs are handed back free of charge, "
            "and none is claimed for %.1f s: %s", queue, pause, error,
        )  # fmt: skip
        self._hooks.tell(Happening(name="worker_error", queue=queue, error=error, detail=str(error)))

    def works(self, queue: str) -> None:
        """A handler of the queue could be started."""
        if self._pauses and self._pauses.pop(queue, None) is not None:
            self._until.pop(queue, None)
            log.warning("queue %s is served again", queue)

    def served(self, queues: Sequence[str]) -> Sequence[str]:
        """Return those of the queues that may be asked."""
        if not self._until:
            return queues
        now = self._clock()
        return [queue for queue in queues if self._until.get(queue, 0.0) <= now]
