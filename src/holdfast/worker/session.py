"""The life of one session: registered, worked under until the pump ends, and left."""

from __future__ import annotations

import asyncio
import functools
import os
import platform
import socket
import time
from collections.abc import Callable, Coroutine

from ..app.hooks import HookEvent, Hooks
from ..core.version import VERSION
from ..guard.page import now
from ..store.contract import Extended, Listener, Session, Store
from .guard import Guard, guard_of
from .heartbeat import MOMENT, Heartbeat
from .new_queues import NewQueues
from .parts import Parts
from .recovery import Retrying
from .settings import LeaseTimes, WorkerApp, WorkerSettings
from .shutdown import leave
from .startup import Declarations, ServedQueues
from .upkeep.ticker import Ticker
from .upkeep.upkeep import Upkeep

GRACE = 5.0
"""How long handlers have, once they were told to stop, before what is left is handed back."""


class SessionLife:
    """Everything that works for one session: listener, heartbeat, guard, upkeep, ticker, new queues and pump."""

    def __init__(
        self,
        app: WorkerApp,
        store: Store,
        hooks: Hooks,
        parts: Parts,
        *,
        settings: WorkerSettings,
        times: LeaseTimes,
        served: ServedQueues,
        declarations: Declarations,
        retrying: Retrying,
        ticker: Ticker,
    ) -> None:
        self._app, self._store, self._hooks, self._parts = app, store, hooks, parts
        self._settings, self._times, self._served = settings, times, served
        self._declarations, self._retrying, self._ticker = declarations, retrying, ticker
        self.is_evicted = False
        self.heartbeat: Heartbeat | None = None
        self._upkeep: Upkeep
        self._guard: Guard | None = None
        self._pumping: asyncio.Task[None]
        """Made once the session is registered."""

    async def run(self, begun: Callable[[], None], watch: Coroutine[None, None, None] | None = None) -> bool:
        """Work under a session until the pump ends; return whether the session was declared dead.

        `begun` is called once it claims; `watch` runs beside it.
        """
        try:
            listener = await self._retrying.do(
                lambda: self._store.listen(self._parts.pump.on_wake_up, lambda finished: None)
            )
            session = await self._registered(listener)
        except BaseException:
            if watch is not None:
                watch.close()
            raise
        heartbeat = await self._start_heartbeat(session)
        helpers, stop_helpers = self._start_helpers(session)
        helpers += [asyncio.create_task(watch)] if watch is not None else []
        self._pumping = asyncio.create_task(self._parts.pump.run(session, self.evicted))
        self._hooks.tell(HookEvent(name="worker_started", worker=session.id))
        begun()
        try:
            await asyncio.wait([self._pumping])
            if not self._pumping.cancelled() and (error := self._pumping.exception()):
                raise error
        finally:
            stop_helpers()
            for task in helpers:
                task.cancel()
            await self._end(heartbeat, listener)
        return self.is_evicted

    async def _end(self, heartbeat: Heartbeat, listener: Listener) -> None:
        if not self._pumping.done():
            self._parts.exit.begin("cancelled")
            await self._parts.shutdown.at_once(self._pumping)
        await heartbeat.stop()
        if self._guard is not None:
            await self._guard.stop()
        listener.close()
        if not self.is_evicted:
            await leave(self._store, heartbeat.session, MOMENT if self._parts.recovery.gave_up else GRACE)

    # --- starting

    async def _registered(self, listener: Listener) -> Session:
        session, sent_at = self._new_session(listener.address), now()
        try:
            await self._retrying.do(lambda: self._store.register(session))
        except BaseException:
            listener.close()
            raise
        self._parts.current.heard_at = time.monotonic()
        self._lease_from(sent_at)
        self._parts.current.session = session
        return session

    def _new_session(self, address: str) -> Session:
        """Return a session under a new id."""
        settings, served, capacity = self._settings, self._served, self._parts.capacity
        return Session(
            id=f"{settings.name}-{os.urandom(6).hex()}",
            name=settings.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=served.queues,
            lease_ms=self._times.lease_ms,
            slots=capacity.most(served.queues, settings.slots),
            address=address,
            tasks=capacity.registry.known(served.queues),
            version=VERSION,
            python=platform.python_version(),
        )

    async def _start_heartbeat(self, session: Session) -> Heartbeat:
        parts, times = self._parts, self._times
        heartbeat = self.heartbeat = Heartbeat(
            self._store, session, times.heartbeat, times.wedged_after, self._on_heartbeat, self._lease_from,
            parts.pool.moved, self._store_lost, lambda: parts.current.renewed_at,
            parts.pool.memory_bytes,
        )  # fmt: skip
        if self._settings.guarded and self._store.shared and parts.capacity.any_slots(self._served.queues):
            self._guard = await self._new_guard(session)
        heartbeat.start()
        return heartbeat

    def _store_lost(self) -> None:
        self._parts.recovery.note_away()
        self._parts.exit.store_lost()

    async def _new_guard(self, session: Session) -> Guard | None:
        return await guard_of(self._store, session, self._times.wedged_after, self._parts.pool)

    def _start_helpers(self, session: Session) -> tuple[list[asyncio.Task[None]], Callable[[], None]]:
        """Start upkeep, ticker and the look-out for new queues; return their tasks, and what ends their bells."""
        parts, store, hooks = self._parts, self._store, self._hooks
        self._upkeep = Upkeep(
            store, self._served.queues, self._times.lease / 3, hooks, own=session.id, claims=parts.claims,
            learn=parts.services.refresh,
        )  # fmt: skip
        new_queues = NewQueues(
            store, hooks, served=self._served, lease_ms=session.lease_ms, pump=parts.pump, runner=parts.runner,
            capacity=parts.capacity, declarations=self._declarations, retrying=self._retrying, serve=self._serve,
        )  # fmt: skip
        bells = self._app.schedules.bells
        bell = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, self._ticker.alarm.ring)
        bells.add(bell)

        def stop() -> None:
            bells.discard(bell)
            new_queues.close()

        running = (self._upkeep.run(), self._ticker.run(), new_queues.run())
        return [asyncio.create_task(each) for each in running], stop

    async def _serve(self, session: Session) -> None:
        """Have all parts work for the session, which has more queues than before."""
        assert self.heartbeat is not None
        self.heartbeat.session = session
        self._upkeep.queues = self._ticker.queues = session.queues
        self._ticker.alarm.ring()
        if self._guard is not None:
            guard, self._guard = self._guard, None
            await guard.stop()
            self._guard = await self._new_guard(session)

    # --- what the pump and the heartbeat say

    def evicted(self) -> None:
        """Hear that the session was declared dead."""
        self.is_evicted = True
        self._parts.pump.lose_all()
        self._pumping.cancel()

    def _on_heartbeat(self, extended: Extended) -> None:
        self._parts.current.heard_at = time.monotonic()
        for lease, reason in extended.aborts:
            self._parts.runner.abort(lease, reason)
        if self._settings.on_stuck == "exit" and self._parts.runner.abandon_stuck(self._settings.grace):
            self._parts.exit.stuck()
        if extended.late:
            self._parts.outcomes.warn_of_lateness()
        if extended.evicted:
            self.evicted()
        if extended.command is not None:
            self._parts.exit.commanded(extended.command)

    def _lease_from(self, sent_at: float) -> None:
        """Let processes work for a lease from the call that was sent then."""
        self._parts.pool.lease_until(sent_at + self._times.lease)
