"""One run of a worker: one session after another, until it is told to stop."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass

import msgspec

from ..app.hooks import HookEvent, Hooks
from ..app.resource import opened
from ..core.bound import DEFAULT_LEASE_MS
from ..errors import StoreTooNew
from ..log import logging_as
from ..store import Store, shown
from ..telemetry.health.health import Facts, LoopBeat
from ..telemetry.observed_store import observed
from .burst import until_empty
from .outcomes import Report
from .parts import assemble
from .recovery import Retrying, Stopped
from .runner import Runner
from .session import SessionLife
from .settings import LeaseTimes, WorkerApp, WorkerSettings
from .signals import heard, stops
from .startup import Declarations, ServedQueues, prepare
from .upkeep.ticker import Ticker

log = logging.getLogger("holdfast")
TICKER_INTERVAL = 5.0
"""After so many seconds at the latest, a worker knows of schedules that others have changed."""


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
    def processes(self) -> int:
        return len(self._runner.executors.pool.processes)

    @property
    def store_url(self) -> str:
        return shown(self._store.url)

    @property
    def counts(self) -> Mapping[str, int]:
        found = msgspec.structs.asdict(self._report)
        return {name: count for name, count in found.items() if isinstance(count, int)}


class WorkerRun:
    """The parts of one run, and its sessions. `stop` stops the worker; `begun` is called once it claims."""

    def __init__(
        self,
        app: WorkerApp,
        hooks: Hooks,
        settings: WorkerSettings,
        served: ServedQueues,
        stop: Callable[..., object],
        begun: Callable[[], None],
    ) -> None:
        self._app, self._hooks, self._settings, self._served = app, hooks, settings, served
        self._stop_worker, self._begun = stop, begun
        self._store = observed(app.store, settings.observer)
        self.parts = assemble(
            self._store, app.registry, hooks, settings, lambda drain, why: stop(drain=drain, why=why)
        )  # fmt: skip
        self._retrying = Retrying(hooks, settings.grace)
        self._declarations = Declarations(app, served, self._retrying, overrule=settings.development)
        self._times = LeaseTimes(DEFAULT_LEASE_MS, DEFAULT_LEASE_MS / 3000, DEFAULT_LEASE_MS / 250)
        """What it has by default, until the run begins."""
        self._pulse = LoopBeat()
        self.life: SessionLife | None = None
        """The latest session."""
        self.stopping: asyncio.Task[None] | None = None

    @property
    def report(self) -> Report:
        """What it did so far."""
        return self.parts.outcomes.report

    @property
    def is_healthy(self) -> bool:
        """True when the store has answered lately and the event loop moves."""
        if self.life is None or time.monotonic() - self.parts.current.heard_at >= self._times.lease:
            return False
        return not (self.life.heartbeat is not None and self.life.heartbeat.wedged)

    def facts(self) -> Facts:
        """Return what its health depends on; from any thread."""
        current, life = self.parts.current, self.life
        return Facts(
            worker=self._settings.name,
            moved_ago=self._pulse.moved_ago,
            heard_ago=time.monotonic() - current.heard_at if current.heard_at else None,
            has_session=life is not None and current.session is not None and not life.is_evicted,
            is_draining=not self.parts.runner.accepting,
            lease=self._times.lease,
            wedged_after=self._times.wedged_after,
        )

    async def run(self, burst: bool, signals: bool) -> Report:
        """Work until told to stop; with `burst`, until nothing is left. Return what it did."""
        parts, registry, settings = self.parts, self._app.registry, self._settings
        self._served.refresh(registry)
        view, observer = (
            ViewOfRun(settings, self._served, parts.runner, self._app.store, self.report),
            settings.observer,
        )
        observer.begin(view)
        self._pulse.start()
        try:
            self._times = settings.lease.times(registry, self._served.queues)
            prepare(
                parts.runner, self._served.queues,
                self._times.wedged_after if settings.guarded else self._times.lease,
            )  # fmt: skip
            here = parts.capacity.any_slots(self._served.queues)  # processes have resources of their own
            async with self._app, opened(registry.resources if here else []):
                return await self._serve_to_the_end(burst, signals)
        except Exception as error:
            parts.exit.unasked("store_too_new" if isinstance(error, StoreTooNew) else "error", error)
            raise
        finally:
            if self.stopping is not None:
                self.stopping.cancel()
            parts.runner.close()
            await parts.pool.close()
            self._pulse.stop()
            observer.end(view)

    async def _serve_to_the_end(self, burst: bool, signals: bool) -> Report:
        with heard(stops(self._stop_worker)) if signals else nullcontext(), suppress(Stopped):
            await self._declarations.begin(self.parts.services, self._ticker() if burst else None)
            await self._serve(burst)
        if self.parts.recovery.gave_up:
            self.parts.exit.unasked("gave_up")
        self._hooks.tell(HookEvent(name="worker_stopped", worker=self._settings.name, detail=str(self.report)))
        await self._hooks.ended(self._settings.grace)
        return self.report

    async def _serve(self, burst: bool) -> None:
        """Work under one session after another, until told to stop."""
        runner = self.parts.runner
        while True:
            self.life = SessionLife(
                self._app, self._store, self._hooks, self.parts, settings=self._settings, times=self._times,
                served=self._served, declarations=self._declarations, retrying=self._retrying, ticker=self._ticker(),
            )  # fmt: skip
            if not await self.life.run(self._begun, self._stop_when_empty() if burst else None):
                return
            log.error("lease_lost: this worker was declared dead: what its handlers did does not count")
            self._hooks.tell(HookEvent(name="lease_lost", worker=self._settings.name))
            if self._settings.on_evicted == "exit" and runner.accepting:
                self.parts.exit.unasked("evicted")
                return
            if not runner.accepting:
                return
            await self._declarations.declare_again()

    def _ticker(self) -> Ticker:
        every = min(TICKER_INTERVAL, self._times.lease / 3)
        return Ticker(self._store, self._app.registry, self._served.queues, self._hooks, every)

    async def _stop_when_empty(self) -> None:
        is_complete = functools.partial(self._served.are, self._app.registry)
        await until_empty(self._store, self.parts, is_complete, self._settings.poll)
        self._stop_worker(why="burst")

    def stop(self, drain: bool, why: str) -> None:
        """Drain and end; without `drain`, also while it drains already, tell handlers at once."""
        if self.stopping is None:
            self.parts.exit.begin(why)
            self.parts.runner.accepting = False
            self.parts.wake_ups.alarm.ring()
            self._retrying.stop()
            with logging_as(self._settings.logger):  # and not where the caller of `stop` logs
                self.stopping = asyncio.get_running_loop().create_task(self.parts.shutdown.run())
        if not drain:
            self.parts.shutdown.hurry.set()
