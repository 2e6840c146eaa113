"""The worker: a session, its pump, its heartbeat and its upkeep, started and stopped in order."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from ..core.duration import Duration, to_ms
from ..core.limit import MOST_COUNT, check_count
from ..errors import ConfigError, PolicyConflict, StoreError
from ..executor import PoolOptions
from ..hook import Happening, Hook, Hooks
from ..option import check_text
from ..page import now
from ..registry import check_queue_name
from ..resource import Resource, opened
from ..store.contract import Extended, Session
from .burst import until_empty
from .guard import Guard
from .insist import Insistent, Stopped
from .lease import MOMENT, Heartbeat
from .prepare import prepare
from .pump import Pump
from .report import Report
from .shutdown import shut_down
from .ticker import Ticker
from .upkeep import Upkeep

if TYPE_CHECKING:
    from ..app import Holdfast

log = logging.getLogger("holdfast")
GRACE = 5.0
"""How long handlers have, once they were told to stop, before what is left is handed back."""
TICKER_INTERVAL = 5.0
"""After so many seconds at the latest, a worker knows of schedules that others have changed."""


class Worker:
    """Runs jobs of some queues, at most `slots` at once. Start and stop are idempotent; it may start again."""

    def __init__(
        self,
        app: Holdfast,
        queues: tuple[str, ...] = (),
        *,
        slots: int = 10,
        lease: Duration = 15.0,
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
    ) -> None:
        check_count(slots, "slots")
        if type(guard) is not bool:
            raise ConfigError(f"guard={guard!r}: True or False")
        if name is not None:
            check_text(name, "name", "a worker's name")
        if on_evicted not in ("restart", "exit"):
            raise ConfigError(f'on_evicted={on_evicted!r}: "restart" or "exit"')
        if on_stuck not in ("keep", "exit"):
            raise ConfigError(f'on_stuck={on_stuck!r}: "keep" or "exit"')
        self._app = app
        self._on_stuck = on_stuck
        self.queues = tuple(map(check_queue_name, queues)) or tuple(app.registry.queues)
        if not self.queues:
            raise ConfigError("this app declares no task and no queue; name the queues to serve")
        self._lease_ms = to_ms(lease, "lease")
        if self._lease_ms < 300:
            raise ConfigError(f"lease={lease!r}: at least 0.3 s")
        self._slots = slots
        self._poll = to_ms(poll, "poll") / 1000
        if self._poll < 0.01:
            raise ConfigError(f"poll={poll!r}: at least 0.01 s")
        self._drain = to_ms(drain, "drain") / 1000
        self._grace = to_ms(grace, "grace") / 1000
        self._wedged = self._lease_ms * 4 / 1000 if wedged_after is None else to_ms(wedged_after, "wedged_after") / 1000
        self._on_evicted = on_evicted
        self._guarded = guard
        self._pool_options = _pool_options(pool, recycle_jobs, recycle_memory, self._drain, self._grace)
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.hooks = Hooks(app.hooks)
        self._pump: Pump | None = None
        self._insistent: Insistent
        """Made anew with each run, as the pump is."""
        self._heartbeat: Heartbeat | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry = asyncio.Event()
        self._stops = 0
        self._gate = threading.RLock()  # a stop may come from any thread, and from a signal in this one
        self._wanted = True
        """Whether a stop is for a run that has not begun: the first, or one that was called for."""
        self._early = 0
        """Such stops."""
        self._heard_at = 0.0
        self._done: asyncio.Event | None = None
        self._stopping: asyncio.Task[None] | None = None

    def on(self, name: str) -> Callable[[Hook], Hook]:
        """Return a decorator: the function hears of such happenings in this worker."""

        def add(hook: Hook) -> Hook:
            self.hooks.add(name, hook)
            return hook

        return add

    @property
    def healthy(self) -> bool:
        """True when the worker has talked to the store lately and its event loop moves."""
        lately = time.monotonic() - self._heard_at < self._lease_ms / 1000
        return self._pump is not None and lately and not (self._heartbeat and self._heartbeat.wedged)

    @property
    def active(self) -> int:
        """How many handlers run now."""
        return len(self._pump.running) if self._pump else 0

    def _pulse(self) -> None:
        self._heard_at = time.monotonic()

    def run(self, *, burst: bool = False, signals: bool = False) -> Coroutine[Any, Any, Report]:
        """Works until it is stopped; with `burst`, until nothing is left. Returns what it did.

        With `signals`, SIGTERM and SIGINT stop it, and a second one skips the drain.
        """
        self._wanted = True  # from now on it can be stopped, though it has not begun
        return self._run_to_the_end(burst, signals)

    async def _run_to_the_end(self, burst: bool, signals: bool) -> Report:
        if self._pump is not None:
            raise ConfigError("this worker runs already")
        pump = Pump(
            self._app.store, self._app.registry, self.hooks, self._slots, self._poll, self._pulse, self._pool_options
        )
        self._begin(pump)
        try:
            prepare(pump, self.queues, self._wedged if self._guarded else self._lease_ms / 1000)
            async with self._app, opened(self._resources(pump)):
                return await self._run(pump, burst, signals)
        finally:
            if self._stopping is not None:
                self._stopping.cancel()
            pump.close()
            await pump.pool.close()
            with self._gate:
                self._pump, self._wanted = None, False
            if self._done is not None:
                self._done.set()

    def _begin(self, pump: Pump) -> None:
        """The worker can be stopped, and is, if it was told to before."""
        self._loop = asyncio.get_running_loop()
        self._hurry, self._done = asyncio.Event(), asyncio.Event()
        self._insistent = Insistent(pump.trouble, self._grace)
        with self._gate:
            self._pump, self._stops = pump, 0
            early, self._early = self._early, 0
        for _ in range(early):
            self._stop()

    def _resources(self, pump: Pump) -> list[Resource[Any]]:
        """Return what handlers in this process may use; those in others have their own."""
        here = any(pump.capacity.demand(queue).slots for queue in self.queues)
        return self._app.registry.resources if here else []

    async def _run(self, pump: Pump, burst: bool, signals: bool) -> Report:
        with self._signals(signals), suppress(Stopped):
            await self._prepare(burst)
            await self._serve(pump, burst)
        self.hooks.tell(Happening(name="worker_stopped", worker=self.name, detail=str(pump.report)))
        return pump.report

    async def _prepare(self, burst: bool) -> None:
        """Everything is declared and, for a burst, what is due is fired."""
        await self._declare()
        if burst:
            await self._insistent.do(self._ticker().round)

    async def _declare(self) -> None:
        app, declarations = self._app, self._app.registry.declarations(self.queues)
        await self._insistent.do(lambda: app.store.declare(declarations))
        await self._insistent.do(lambda: app.schedules.declare(self.queues))

    def _ticker(self) -> Ticker:
        interval = min(TICKER_INTERVAL, self._lease_ms / 3000)
        return Ticker(self._app.store, self._app.registry, self.queues, self.hooks, interval)

    async def _serve(self, pump: Pump, burst: bool) -> None:
        """One session after another, until the worker is told to stop."""
        while True:
            evicted = await self._session(pump, burst)
            if not evicted:
                return
            log.error("this worker was declared dead: its handlers were aborted, and what they did does not count")
            self.hooks.tell(Happening(name="lease_lost", worker=self.name))
            if self._on_evicted == "exit" or not pump.claiming:
                return
            await self._declare_again()

    async def _declare_again(self) -> None:
        """A store that forgot the worker's session may have been emptied, and what was declared with it."""
        try:
            await self._declare()
        except PolicyConflict as error:
            log.error("this worker goes on, with what others have declared meanwhile: %s", error)

    async def _session(self, pump: Pump, burst: bool) -> bool:
        """Work under one session; return whether it was declared dead."""
        store = self._app.store
        evicted = False
        listener = await self._insistent.do(lambda: store.listen(pump.call, lambda finished: None))

        def on_evicted() -> None:
            nonlocal evicted
            evicted = True
            pump.forget_all()
            pumping.cancel()

        def on_heartbeat(extended: Extended) -> None:
            self._pulse()
            for lease, reason in extended.aborts:
                pump.abort(lease, reason)
            self._look_for_stuck(pump)
            if extended.late:
                pump.warn_of_lateness()
            if extended.evicted:
                on_evicted()

        session = self._new_session(listener.address, pump.capacity.most(self.queues, self._slots))
        sent_at = now()
        try:
            await self._insistent.do(lambda: store.register(session))
        except BaseException:
            listener.close()
            raise
        self._pulse()
        pump.pool.lease_until(sent_at + self._lease_ms / 1000)
        pump.session = session
        heartbeat = self._heartbeat = Heartbeat(
            store, session, self._lease_ms / 3000, self._wedged, on_heartbeat,
            lambda sent_at: pump.pool.lease_until(sent_at + self._lease_ms / 1000), pump.pool.moved,
        )  # fmt: skip
        guard = await self._guard(pump, session)
        heartbeat.start()
        keeper = Upkeep(store, session, self._lease_ms / 3000, self.hooks)
        pump.on_start = keeper.note
        upkeep = asyncio.create_task(keeper.run())
        ticker = self._ticker()
        ticking = asyncio.create_task(ticker.run())
        bell = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, ticker.alarm.ring)
        self._app.schedules.bells.add(bell)
        watching = asyncio.create_task(self._stop_when_empty(pump)) if burst else None
        pumping = asyncio.create_task(pump.run(session, on_evicted))
        self.hooks.tell(Happening(name="worker_started", worker=session.id))
        try:
            await asyncio.wait([pumping])
            if not pumping.cancelled() and (error := pumping.exception()):
                raise error
        finally:
            self._app.schedules.bells.discard(bell)
            for task in (upkeep, ticking, watching):
                if task is not None:
                    task.cancel()
            if not pumping.done():
                await self._hand_back(pump, pumping)
            await heartbeat.stop()
            if guard is not None:
                await guard.stop()
            listener.close()
            if not evicted:
                await self._leave(session, MOMENT if pump.unheard else GRACE)
        return evicted

    async def _guard(self, pump: Pump, session: Session) -> Guard | None:
        """Return what extends the lease when this interpreter is held up, if handlers run in it."""
        here = any(pump.capacity.demand(queue).slots for queue in self.queues)
        if not (self._guarded and here and self._app.store.shared):
            return None
        try:
            return await Guard.start(self._app.store, session, self._wedged, pump.pool.deadline().guard_fd)
        except OSError as error:
            log.warning("no guard could be started, so native code may cost this worker its lease: %s", error)
            return None

    def _look_for_stuck(self, pump: Pump) -> None:
        if self._on_stuck == "exit" and pump.leave_stuck(self._grace):
            log.error("a thread did not return after its time-out: this worker ends, to be started again")
            self.stop()

    async def _hand_back(self, pump: Pump, pumping: asyncio.Task[None]) -> None:
        """The worker itself was cancelled: what it holds is handed back without a drain."""
        pump.claiming = False
        pump.last_try = time.monotonic() + self._grace
        pump.abort_all("shutdown")
        pump.give_up_all()
        await asyncio.wait([pumping], timeout=self._grace)
        pumping.cancel()

    async def _leave(self, session: Session, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                await self._app.store.leave(session)
        except (StoreError, TimeoutError) as error:
            told = str(error) or f"the store did not answer for {patience:g} s"
            log.warning("this worker could not take its leave, and will be missed when its lease is over: %s", told)

    def _new_session(self, address: str, slots: int) -> Session:
        return Session(
            id=f"{self.name}-{os.urandom(6).hex()}",
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=self.queues,
            lease_ms=self._lease_ms,
            slots=slots,
            address=address,
        )

    async def _stop_when_empty(self, pump: Pump) -> None:
        await until_empty(pump, self._app.store, self.queues, self._poll)
        self.stop()

    # --- stopping

    def stop(self) -> None:
        """The worker drains and ends; a second call skips the drain. May be called from any thread.

        Before it has begun to run, it ends as soon as it does; once it has ended, nothing happens.
        """
        with self._gate:
            loop = self._loop if self._pump is not None else None
            if loop is None:
                self._early += self._wanted
                return
        with suppress(RuntimeError):  # the loop is closed, and the worker with it
            loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._stops += 1
        if self._pump is not None and self._stops <= 2:
            self._pump.claiming = False
            self._pump.alarm.ring()
            self._insistent.stop()
            if self._stops == 1:
                self._stopping = asyncio.get_running_loop().create_task(
                    shut_down(self._pump, self._drain, self._grace, self._hurry)
                )
            else:
                self._hurry.set()

    async def stopped(self) -> None:
        """Return once the worker has ended."""
        if self._done is not None:
            await self._done.wait()

    @contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT) if wanted else ()
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _pool_options(count: int | None, jobs: int | None, memory: int | None, drain: float, grace: float) -> PoolOptions:
    for name, value in (("pool", count), ("recycle_jobs", jobs), ("recycle_memory", memory)):
        if value is not None:
            check_count(value, name, most=2**62 if name == "recycle_memory" else MOST_COUNT)
    count = count or os.cpu_count() or 1
    return PoolOptions(count=count, recycle_jobs=jobs, recycle_memory=memory, drain=drain, grace=grace)
