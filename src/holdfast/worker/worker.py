"""The worker: its options, its start and its stop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

from ..app.hooks import Hook, Hooks, tell_of_life
from ..app.options import is_development
from ..app.registry import check_queue_name
from ..core.duration import Duration, to_ms
from ..core.limit import check_count
from ..core.word import check_text
from ..errors import ConfigError
from ..handler.job import _current
from ..handler.middleware import Middleware, check_middleware
from ..log import check_logger, logging_as
from ..telemetry.context import records_with_jobs
from ..telemetry.health.health import Facts, HealthReport, live, ready
from ..telemetry.health.port import LOOPBACK, Port
from ..telemetry.health.ports import PortOptions, port_of, port_options
from ..telemetry.logs import JobLog
from ..telemetry.metrics.process import are_wanted, of_this_process
from ..telemetry.metrics.tally import Sample
from ..telemetry.observer import Observer, Observers, check_observers
from .background import Background, Ending
from .outcomes import Report
from .run import WorkerRun
from .session import GRACE
from .settings import LeaseOptions, WorkerApp, WorkerSettings, check_choice, check_switch, pool_options
from .startup import ServedQueues

log = logging.getLogger("holdfast")


class Worker:
    """Runs jobs of some queues, at most `slots` at once. Start and stop are idempotent; it may start again."""

    def __init__(
        self,
        app: WorkerApp,
        queues: tuple[str, ...] = (),
        *,
        slots: int = 10,
        lease: Duration | None = None,
        heartbeat: Duration | None = None,
        claim_interval: Duration = 0,
        poll: Duration = 1.0,
        drain: Duration = 30.0,
        grace: Duration = GRACE,
        wedged_after: Duration | None = None,
        name: str | None = None,
        on_evicted: Literal["restart", "exit"] = "restart",
        on_stuck: Literal["keep", "exit"] = "keep",
        pool: int | None = None,
        recycle_jobs: int | None = None,
        recycle_memory: int | None = None,
        guard: bool = False,
        middleware: Sequence[Middleware] = (),
        logger: str | logging.Logger | None = None,
        log_jobs: bool = True,
        observers: Sequence[Observer] = (),
        metrics_port: int | str | None = None,
        health_port: int | str | None = None,
        metrics_host: str = LOOPBACK,
        development: bool | None = None,
    ) -> None:
        check_count(slots, "slots")
        check_switch(guard, "guard")
        check_switch(log_jobs, "log_jobs")
        if name is not None:
            check_text(name, "name", "a worker's name")
        check_choice(on_evicted, "on_evicted", "restart", "exit")
        check_choice(on_stuck, "on_stuck", "keep", "exit")
        self._app = app
        ports = port_options(metrics_port, health_port, metrics_host)
        self._served = ServedQueues(tuple(map(check_queue_name, queues)), is_open=not queues)
        self._served.refresh(app.registry)
        if not self.queues:
            raise ConfigError("this app declares no task and no queue; name the queues to serve")
        lease_options = LeaseOptions(lease=lease, heartbeat=heartbeat, wedged_after=wedged_after)
        lease_options.times(app.registry, self.queues)
        claim_seconds, poll_seconds = to_ms(claim_interval, "claim_interval") / 1000, to_ms(poll, "poll") / 1000
        if poll_seconds < 0.01:
            raise ConfigError(f"poll={poll!r}: at least 0.01 s")
        drain_seconds, grace_seconds = to_ms(drain, "drain") / 1000, to_ms(grace, "grace") / 1000
        self._settings = WorkerSettings(
            name=name or f"{socket.gethostname()}-{os.getpid()}",
            slots=slots,
            lease=lease_options,
            claim_interval=claim_seconds,
            poll=poll_seconds,
            drain=drain_seconds,
            grace=grace_seconds,
            on_evicted=on_evicted,
            on_stuck=on_stuck,
            middleware=check_middleware(middleware),
            logger=check_logger(logger) or app.logger,
            pool=pool_options(pool, recycle_jobs, recycle_memory, drain_seconds, grace_seconds),
            guarded=guard,
            observer=Observers([JobLog(jobs=log_jobs), *check_observers(observers), *self._counting(ports)]),
            ports=ports,
            development=is_development(development, app.development),
        )
        self.hooks = Hooks(app.hooks)
        tell_of_life(self._settings.observer, self.hooks)
        self._run: WorkerRun | None = None
        """The run that is under way."""
        self._port: Port | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate = threading.RLock()  # a stop may come from any thread, and from a signal in this one
        self._wanted = True
        """Whether a stop is for a run that has not begun: the first, or one that was called for."""
        self._early: bool | None = None
        """Such a stop: whether it lets the run drain."""
        self._done: asyncio.Event | None = None
        self._background: Background[Report] | None = None
        self._report = Report()

    def on(self, name: str) -> Callable[[Hook], Hook]:
        """Return a decorator: the function hears of such events in this worker."""

        def add(hook: Hook) -> Hook:
            self.hooks.add(name, hook)
            return hook

        return add

    @property
    def name(self) -> str:
        """The worker's name."""
        return self._settings.name

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that it serves."""
        return self._served.queues

    @property
    def healthy(self) -> bool:
        """True when the worker has talked to the store lately and its event loop moves."""
        return self._run is not None and self._run.is_healthy

    def live(self) -> HealthReport:
        """Return whether the worker's event loop moves, and if not, why; from any thread."""
        return live(self._facts())

    def ready(self) -> HealthReport:
        """Return whether the worker takes jobs: the store answers, it does not drain, and nothing holds it up."""
        return ready(self._facts())

    def _facts(self) -> Facts:
        run = self._run
        return Facts(worker=self.name, moved_ago=0.0, has_ended=True) if run is None else run.facts()

    @property
    def urls(self) -> tuple[str, ...]:
        """Where its port or ports answer while it runs: that of its metrics first."""
        return tuple(self._port.urls) if self._port is not None else ()

    @property
    def active(self) -> int:
        """How many handlers run now."""
        return len(self._run.parts.runner.running) if self._run else 0

    @property
    def running(self) -> bool:
        """True until it has ended, from the beginning of `run` or `start` on."""
        return self._run is not None or (self._background is not None and not self._background.over)

    async def start(self, *, signals: bool = False) -> None:
        """Work in the background of this event loop; it claims when this returns, and `stop` ends it.

        Raises what keeps it from starting. While it runs, another start changes nothing.
        """
        if not self.running:
            with self._gate:
                self._early = None  # a stop of a worker that did not run was none
            self._background = Background(self.run(signals=signals), f"worker {self.name}")
        if self._background is not None:
            await self._background.begin()

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def run(self, *, burst: bool = False, signals: bool = False) -> Coroutine[object, None, Report]:
        """Works until it is stopped; with `burst`, until nothing is left. Returns what it did.

        With `signals`, SIGTERM and SIGINT stop it, as they do all workers of this process that hear them; a second one
        skips the drain.
        """
        self._wanted = True  # from now on it can be stopped, though it has not begun
        return self._run_to_the_end(burst, signals)

    async def _run_to_the_end(self, burst: bool, signals: bool) -> Report:
        with logging_as(self._settings.logger), records_with_jobs(_current.get):
            if self._run is not None:
                raise ConfigError("this worker runs already")
            if self._background is not None and not self._background.is_current:
                self._background = None
            run = WorkerRun(self._app, self.hooks, self._settings, self._served, self.stop, self._on_begun)
            with self._open_port():
                self._begin(run)
                try:
                    return await run.run(burst, signals)
                finally:
                    with self._gate:
                        self._run, self._wanted = None, False
                    if self._done is not None:
                        self._done.set()

    @contextmanager
    def _open_port(self) -> Iterator[None]:
        """Have metrics and health on the worker's ports, if it has any."""
        if not self._settings.ports:
            yield
            return

        async def samples() -> Iterable[Sample]:
            return of_this_process().tally.samples()

        with port_of(self._settings.ports, self, samples, self._app.store) as self._port:
            log.info("port_open: metrics and health are at %s", " and ".join(self._port.urls))
            yield
        self._port = None

    def _counting(self, ports: PortOptions) -> list[Observer]:
        """Return what counts the worker's jobs, if somebody will look."""
        if not ports and not are_wanted(self._app.metrics):
            return []
        self._app.count_calls()
        return of_this_process().observers()

    def _begin(self, run: WorkerRun) -> None:
        """Let the run be stopped; stop it, if the worker was told to before."""
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        with self._gate:
            self._run, self._report = run, run.report
            early, self._early = self._early, None
        if early is not None:
            run.stop(early, "stop")

    def _on_begun(self) -> None:
        if self._background is not None:
            self._background.begun.set()

    def stop(self, *, drain: bool = True, why: str = "stop") -> Ending[Report]:
        """The worker drains and ends; without `drain`, also while it drains already, its handlers are told at once.

        May be called from any thread; the hook `worker_stopping` hears `why`. Awaiting it returns the report, as
        `stopped` does. Before `run` has begun, the worker ends as soon as it does; once it has ended, nothing happens.
        """
        with self._gate:
            loop = self._loop if self._run is not None else None
            if loop is None and self._wanted:
                self._early = drain and self._early is not False
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and the worker with it
                loop.call_soon_threadsafe(self._stop, drain, why)
        return Ending(self.stopped)

    def _stop(self, drain: bool, why: str) -> None:
        if self._run is not None:
            self._run.stop(drain, why)

    async def stopped(self) -> Report:
        """Return what the worker did, once it has ended; raise what ended one that was started by `start`."""
        loop = self._loop
        if self.running and loop is not None and loop is not asyncio.get_running_loop():
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ended(), loop))
        return await self._ended()

    async def _ended(self) -> Report:
        if self._background is not None:
            return await self._background.end() or self._report
        if self._done is not None:
            await self._done.wait()
        return self._report
