"""What a worker's observers see of it: a run while it lasts, and what its hooks hear of its life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ..app.hooks import WORKER_EVENTS, HookEvent, Hooks
from ..store.contract import Store
from ..store.shown import shown
from ..telemetry.observer import Observer, WorkerEvent
from .outcomes import Report
from .runner import Runner
from .settings import WorkerSettings
from .startup import ServedQueues

TOLD_OTHERWISE = frozenset({"lost"})
"""Hooks of attempts, of which observers hear many at once."""


@dataclass(frozen=True)
class ViewOfRun:
    """A run of a worker, as its observers see it."""

    _settings: WorkerSettings
    _served: ServedQueues
    _runner: Runner
    _store: Store
    _report: Report

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def queues(self) -> tuple[str, ...]:
        return self._served.queues

    @property
    def slots(self) -> int:
        return self._settings.slots

    @property
    def free(self) -> int:
        return self._runner.free

    @property
    def running(self) -> int:
        return len(self._runner.running)

    @property
    def store_url(self) -> str:
        return shown(self._store.url)

    @property
    def counts(self) -> Mapping[str, int]:
        found = msgspec.structs.asdict(self._report)
        return {name: count for name, count in found.items() if isinstance(count, int)}


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
