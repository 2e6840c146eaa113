"""The heartbeat: sent from a thread of its own, so that a busy handler does not stop it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ..errors import StoreError
from ..page import now
from ..store.contract import Extended, Session, Store

log = logging.getLogger("holdfast")
MOMENT = 1.0
"""How long a stop waits for the heartbeat that is under way."""


class Heartbeat:
    """Extends one session until it is stopped, and tells the worker's loop what the store answers.

    When that loop itself has been stuck for longer than `wedged_after` seconds, heartbeats stop: then the
    jobs go to somebody who can finish them.
    """

    def __init__(
        self,
        store: Store,
        session: Session,
        interval: float,
        wedged_after: float,
        heard: Callable[[Extended], None],
        extended: Callable[[float], None] = lambda sent_at: None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._session = session
        self._interval = interval
        self._wedged_after = wedged_after
        self._heard = heard
        self._extended = extended
        self._moved = moved
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._ticked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="holdfast-heartbeat", daemon=True)
        self._ticker: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self.wedged = False
        self._evicted = False

    def start(self) -> None:
        """Heartbeats are sent."""
        self._tick()
        self._thread.start()

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        self._moved()
        self._ticker = self._loop.call_later(min(1.0, self._interval / 2), self._tick)

    async def stop(self) -> None:
        """No more heartbeats are sent. One that is under way has a moment, and is given up then: its store hangs."""
        self._stop.set()
        if self._ticker is not None:
            self._ticker.cancel()
        await asyncio.to_thread(self._thread.join, MOMENT)
        beating = self._beating
        if self._thread.is_alive() and beating is not None:
            with suppress(RuntimeError):  # it has ended meanwhile, and its loop with it
                beating.get_loop().call_soon_threadsafe(beating.cancel)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        """Beat until it is stopped. A process that is out of descriptors has no event loop for it, and tries again."""
        while not self._stop.is_set():
            try:
                with asyncio.Runner() as runner:
                    runner.get_loop()  # before there is a coroutine that nobody would await
                    runner.run(self._beat())
                return
            except asyncio.CancelledError:
                return
            except OSError as error:
                log.error("heartbeats cannot be sent, as this process can open nothing more: %s", error)
                self._stop.wait(self._interval)

    async def _beat(self) -> None:
        self._beating = asyncio.current_task()
        store = self._store.twin()
        opened = await self._tried(lambda: self._open(store))
        try:
            while not self._stop.wait(self._interval):
                if self._loop_is_stuck():
                    continue
                opened = opened or await self._tried(lambda: self._open(store))
                if opened and await self._tried(lambda: self._extend(store)) and self._evicted:
                    return
        finally:
            if opened:
                await store.close()

    async def _tried(self, call: Callable[[], Awaitable[None]]) -> bool:
        """True when the store answered. A store that is away must not end the thread: it may come back."""
        try:
            await call()
        except (StoreError, TimeoutError) as error:
            log.warning("a heartbeat failed, the next may not: %s", str(error) or "the store is away")
        except Exception:
            log.exception("a heartbeat failed, the next may not")
        else:
            return True
        return False

    async def _open(self, store: Store) -> None:
        """The store is open; one that waits longer than a beat for its server would hold up the worker's stop."""
        async with asyncio.timeout(self._interval):
            await store.open()

    async def _extend(self, store: Store) -> None:
        sent_at = now()
        extended = await store.extend(self._session)
        self._evicted = extended.evicted
        if not extended.evicted:
            self._extended(sent_at)  # here, in this thread: the loop may be busy for longer than a lease
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._heard, extended)

    def _loop_is_stuck(self) -> bool:
        stuck = time.monotonic() - self._ticked
        if stuck > self._wedged_after and not self.wedged:
            log.error("the event loop has been stuck for %.0f s: heartbeats stop until it moves again", stuck)
        self.wedged = stuck > self._wedged_after
        return self.wedged
