"""`WorkerProcesses`: what `holdfast worker --processes N` does, for a program."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Unpack

from ..app.loader import load_app
from ..app.options import WorkerOptions
from ..core.limit import check_count
from ..errors import ConfigError, HoldfastError
from ..store import shown
from ..telemetry.health.port import LOOPBACK
from ..telemetry.health.ports import port_options
from ..worker.background import Ending
from ..worker.signals import heard
from .combined import CombinedPort
from .command import worker_command
from .keeper import Keeper, ProcessesReport

log = logging.getLogger("holdfast")
RESTARTS_IN_BURST = 3


class WorkerProcesses:
    """`count` processes that each run a worker of the app which an import path names, such as `shop:app`.

    One that dies is replaced. Options are those of a worker; a mistake in them is raised here, not by each process.
    """

    def __init__(
        self,
        app: str,
        count: int,
        queues: Sequence[str] | None = None,
        *,
        burst: bool = False,
        quiet: bool = True,
        say: Callable[[str], None] = lambda text: log.warning("worker_process: %s", text),
        words: Sequence[str] = (),
        probed: bool = False,
        **options: Unpack[WorkerOptions],
    ) -> None:
        check_count(count, "count")
        self.app = load_app(app)
        self.queues = self.app.worker(queues, **options).queues
        if not self.app.store.shared:
            url = shown(self.app.store.url)
            raise ConfigError(f"{url} is one process's own memory, which others cannot share; use sqlite:///jobs.db")
        name = options.pop("name", None)
        ports = port_options(
            options.pop("metrics_port", None), options.pop("health_port", None), options.pop("metrics_host", LOOPBACK)
        )
        self._is_stopping = False
        self._combined: CombinedPort | None = None
        """How the processes are asked, for a port or for `stuck`."""
        if ports or probed:
            self._combined = CombinedPort(ports, count, self.app.store, lambda: self._is_stopping)
        base = [*worker_command(app, queues, options), *["--burst"] * burst, *["--quiet"] * quiet, *words]

        def command(number: int) -> Sequence[str]:
            named = ["--name", f"{name}-{number}"] if name else []
            port = ["--metrics-port", self._combined.path(number)] if self._combined is not None else []
            return [*base, *named, *port]

        most_restarts = RESTARTS_IN_BURST if burst else None
        self._make: Callable[[], Keeper] = lambda: Keeper(command, count, say, most_restarts=most_restarts)
        self._keeper: Keeper | None = None
        self._has_keeper = asyncio.Event()
        self._keeping: asyncio.Task[ProcessesReport] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def running(self) -> bool:
        """True until all processes have ended."""
        return self._keeping is not None and not self._keeping.done()

    @property
    def urls(self) -> tuple[str, ...]:
        """Where the port, or the ports, of all processes together answer while they run."""
        return tuple(self._combined.port.urls) if self._combined is not None and self.running else ()

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return self._keeper.pids if self._keeper is not None else []

    async def start(self, *, signals: bool = False) -> None:
        """Start the processes; each has a worker that claims when this returns. Raises when one cannot be started.

        While they run, another start changes nothing. `signals` is as for `run`.
        """
        keeper, keeping = self._begin(signals)
        begun = asyncio.gather(*(each.wait() for each in keeper.begun))
        gave_up = asyncio.ensure_future(keeper.gave_up.wait())
        try:
            futures: list[asyncio.Future[Any]] = [keeping, begun, gave_up]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if keeper.gave_up.is_set() and not begun.done():
                await self.stop()
                raise HoldfastError("a worker process could not be started; what it said of it is on stderr")
            if keeping.done():
                keeping.result()
        except asyncio.CancelledError:
            await self.stop(drain=False)
            raise
        finally:
            begun.cancel()
            gave_up.cancel()

    async def begun(self) -> None:
        """Return once each process has had a worker that claims."""
        await self._has_keeper.wait()
        assert self._keeper is not None
        await asyncio.gather(*(each.wait() for each in self._keeper.begun))

    async def stuck(self) -> list[str]:
        """Return which processes say that their event loops are stuck; they must be `probed`, or have a port."""
        return await self._combined.stuck() if self._combined is not None else []

    def _begin(self, signals: bool) -> tuple[Keeper, asyncio.Task[ProcessesReport]]:
        if self._keeper is None or self._keeping is None or self._keeping.done():
            self._loop = asyncio.get_running_loop()
            self._keeper = self._make()
            self._has_keeper.set()
            self._keeping = self._loop.create_task(self._keep(self._keeper, signals))
        return self._keeper, self._keeping

    async def _keep(self, keeper: Keeper, signals: bool) -> ProcessesReport:
        self._is_stopping = False
        with heard(self._on_signal()) if signals else nullcontext(), self._combined or nullcontext():
            return await keeper.run()

    async def run(self, *, signals: bool = False) -> ProcessesReport:
        """Returns what they did, once all have ended: told to stop, or by themselves, as those of a burst do.

        With `signals`, SIGTERM and SIGINT stop them; a second one skips the drain, and a third one kills.
        """
        if self.running:
            raise ConfigError("these worker processes run already")
        self._begin(signals)
        try:
            return await self.stopped()
        except asyncio.CancelledError:
            await self.stop(drain=False)
            raise

    def _on_signal(self) -> Callable[[int], None]:
        steps = iter((True, False))

        def on_signal(number: int) -> None:
            drain = next(steps, None)
            if drain is not None:
                self.stop(drain=drain)
            else:
                self._tell(Keeper.kill)

        return on_signal

    def stop(self, *, drain: bool = True) -> Ending[ProcessesReport]:
        """Stop all processes; without `drain` they skip their drain. Awaiting it returns what they did.

        May be called from any thread, and again.
        """
        self._is_stopping = True
        self._tell(lambda keeper: keeper.stop(drain=drain))
        return Ending(self.stopped)

    def _tell(self, what: Callable[[Keeper], None]) -> None:
        if self._loop is not None and self._keeper is not None and self.running:
            with suppress(RuntimeError):  # the loop is closed, and nothing is kept any more
                self._loop.call_soon_threadsafe(what, self._keeper)

    async def stopped(self) -> ProcessesReport:
        """Return what they did, once all have ended."""
        if self._keeping is None:
            return ProcessesReport()
        return await asyncio.shield(self._keeping)

    async def __aenter__(self) -> WorkerProcesses:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
