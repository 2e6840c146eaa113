"""The heartbeat: sent from a thread of its own, so that a busy handler does not stop it."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ..errors import StoreError
from ..guard.page import now
from ..log import with_logger
from ..store.contract import Extended, Session, Store

log = logging.getLogger("holdfast")
MOMENT = 1.0
"""How long a stop waits for the heartbeat that is under way."""
LAST_TENTH = 0.1
"""The part of a lease that is left to handlers to stop in, when no heartbeat was answered in all the rest of it."""


class Heartbeat:
    """Extend one session until stopped, and tell the worker's loop what the store answers.

    When that loop itself has been stuck for longer than `wedged_after` seconds, heartbeats stop: then the
    jobs go to a worker that can finish them. When the store does not answer until the lease is nearly over by this
    worker's own clock, `lost` is called, once for each time that it is away.
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
        lost: Callable[[], None] = lambda: None,
        renewed_at: Callable[[], float] = lambda: 0.0,
        memory: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._store = store
        self.session = session
        self._interval = interval
        self._wedged_after = wedged_after
        self._heard = heard
        self._extended = extended
        self._moved = moved
        self._lost = lost
        self._renewed_at = renewed_at
        """Returns when the latest turn was sent that the store answered."""
        self._memory = memory
        """Returns the memory of this worker, in bytes. Called in the heartbeat's thread."""
        self._answered = now()
        """When the last heartbeat was sent that was answered; this session itself was registered before."""
        self._unanswered: float | None = None
        """When the first was sent that was not."""
        self._is_away = False
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._ticked = time.monotonic()
        self._thread = threading.Thread(target=with_logger(self._run), name="holdfast-heartbeat", daemon=True)
        self._ticker: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self.wedged = False
        self._evicted = False

    def start(self) -> None:
        """Begin to send heartbeats."""
        self._tick()
        self._thread.start()

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        self._moved()
        self._note_turns()
        self._ticker = self._loop.call_later(min(1.0, self._interval / 2, self._look_at_the_lease()), self._tick)

    def _look_at_the_lease(self) -> float:
        """Return after how many seconds to look again. Say when the lease may soon be over.

        A worker that was itself held up asks the store first: only what stays without an answer is away.
        """
        since = self._unanswered
        if since is None or self._evicted:
            self._is_away = False
            return math.inf
        over = self._answered + self.session.lease_ms / 1000 * (1 - LAST_TENTH)
        left = max(over, since + self._interval / 2) - now()
        if left > 0:
            return max(left, 0.01)
        if not self._is_away:
            self._is_away = True
            self._lost()
        return math.inf

    def _note_turns(self) -> None:
        """Note answered turns: each renews a lease of which a third has passed, so two thirds are left at least."""
        answered = self._renewed_at() - self.session.lease_ms / 3000
        if answered > self._answered:  # heartbeats have not been answered for longer than they should
            self._answered = answered
            self._extended(answered)

    async def stop(self) -> None:
        """Send no more heartbeats. One that is under way has a moment, and is given up then, as its store hangs."""
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
        """Beat until stopped. A process that is out of descriptors has no event loop for it, and tries again."""
        while not self._stop.is_set():
            try:
                with asyncio.Runner() as runner:
                    runner.get_loop()  # before there is a coroutine, which would never be awaited
                    runner.run(self._beat())
                return
            except asyncio.CancelledError:
                return
            except OSError as error:
                log.error("heartbeat_failed: this process can open nothing more: %s", error)
                self._stop.wait(self._interval)

    async def _beat(self) -> None:
        self._beating = asyncio.current_task()
        store = self._store.twin()
        opened = await self._tried(lambda: self._open(store))
        self._unanswered = None  # a heartbeat is due in an interval only
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
        if self._unanswered is None:
            self._unanswered = now()
        try:
            await call()
        except (StoreError, TimeoutError) as error:
            log.warning("heartbeat_failed: the next is sent as usual: %s", str(error) or "the store is away")
        except Exception:
            log.exception("heartbeat_failed: the next is sent as usual")
        else:
            return True
        return False

    async def _open(self, store: Store) -> None:
        """Open the store; one that waits longer than a beat for its server would hold up the worker's stop."""
        async with asyncio.timeout(self._interval):
            await store.open()

    async def _extend(self, store: Store) -> None:
        sent_at = now()
        extended = await store.extend(self.session, self._memory())
        self._answered, self._unanswered = sent_at, None
        self._evicted = extended.evicted
        if not extended.evicted:
            self._extended(sent_at)  # here, in this thread: the loop may be busy for longer than a lease
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._heard, extended)

    def _loop_is_stuck(self) -> bool:
        stuck = time.monotonic() - self._ticked
        if stuck > self._wedged_after and not self.wedged:
            log.error(
                "loop_stuck: the event loop has been stuck for %.0f s: heartbeats stop until it moves again", stuck
            )
        self.wedged = stuck > self._wedged_after
        return self.wedged
