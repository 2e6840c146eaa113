"""The maintainer: upkeep of all queues of a store, whether or not a worker of theirs is alive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress

import msgspec

from ...app.registry import check_queue_name
from ...core.duration import Duration, to_ms
from ...errors import ConfigError, StoreError
from ...log import logging_as
from ...telemetry.logs import JobLog
from ...telemetry.observed_store import observed
from ...telemetry.observer import Observers
from ..background import Background, Ending
from ..settings import WorkerApp
from ..signals import heard
from .ticker import Ticker
from .upkeep import Upkeep, until_next_look

log = logging.getLogger("holdfast")
NEW_QUEUES = 12
"""After so many intervals at the latest, a queue that is new in the store is looked after, too."""
SILENT = 0.5
"""A worker is heard every third of its lease: one that was not for this part of it may have vanished."""
GRACE = 5.0
"""How long a call of the store may take once it is told to stop."""
PATIENCE = 1.5
"""Leases for which one round waits for those who may have vanished."""


class Maintained(msgspec.Struct, kw_only=True):
    """What a maintainer did."""

    queues: list[str] = []
    returned: int = 0
    """Jobs of vanished workers that wait again."""
    failed: int = 0
    """Jobs of vanished workers that were at their limit of stalls."""
    expired: int = 0
    """Finished runs that were removed."""
    fired: int = 0
    """Schedules that were fired."""


class Maintainer:
    """Reap, expire, trim and fire schedules in some queues, or in all that the store has, without running jobs.

    Any number of them may be at it, beside workers, which do the same for the queues that they serve.
    """

    def __init__(self, app: WorkerApp, queues: Sequence[str] = (), *, interval: Duration = 5.0) -> None:
        self._app = app
        self._given = tuple(map(check_queue_name, queues))
        self._interval = to_ms(interval, "interval") / 1000
        if self._interval < 0.01:
            raise ConfigError(f"interval={interval!r}: at least 0.01 s")
        self._background: Background[Maintained] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()
        self.queues: Sequence[str] = self._given
        """What it looks after; without a list of its own, that is known once it works."""

    @property
    def running(self) -> bool:
        """True until it has ended."""
        return self._background is not None and not self._background.over

    async def start(self, *, signals: bool = False) -> None:
        """Work in the background of this event loop. With `signals`, SIGTERM and SIGINT stop it."""
        if self._background is None or self._background.over:
            self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
            self._background = Background(self._work(signals), "upkeep")
        await self._background.begin()

    async def run(self, *, signals: bool = False) -> Maintained:
        """Work until stopped, and return what it did."""
        await self.start(signals=signals)
        try:
            return await self.stopped()
        except asyncio.CancelledError:
            self.stop()
            raise

    def stop(self) -> Ending[Maintained]:
        """End it. May be called from any thread, and again; awaiting it returns what it did."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and all that ran in it has ended
                self._loop.call_soon_threadsafe(self._told.set)
        return Ending(self.stopped)

    def _on_signal(self, number: int) -> None:
        self.stop()

    async def stopped(self) -> Maintained:
        """Return what it did, once it has ended; raise what ended it."""
        return (await self._background.end() if self._background is not None else None) or Maintained()

    async def __aenter__(self) -> Maintainer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def _work(self, signals: bool) -> Maintained:
        with logging_as(self._app.logger), heard(self._on_signal) if signals else nullcontext():
            async with self._app:
                upkeep, ticker = await self._chores()
                keeping = asyncio.create_task(upkeep.run())
                others = [asyncio.create_task(each) for each in (ticker.run(), self._find_queues(upkeep, ticker))]
                if self._background is not None:
                    self._background.begun.set()
                try:
                    await self._told.wait()
                    upkeep.stop()
                    await asyncio.wait([keeping], timeout=GRACE)  # what was reaped is told, too
                finally:
                    for task in (keeping, *others):
                        task.cancel()
                    await asyncio.gather(keeping, *others, return_exceptions=True)
        return _maintained(upkeep, ticker)

    async def once(self) -> Maintained:
        """Do all that is due now. While workers may have vanished, wait for the end of their leases."""
        async with self._app:
            upkeep, ticker = await self._chores()
            await ticker.round()
            for queue in upkeep.queues:
                await upkeep.sweep(queue)
            patience: float | None = None
            while True:
                leases = {queue: await upkeep.reap(queue) for queue in upkeep.queues}
                longest = await self._longest_silence(queue for queue, lease in leases.items() if lease is not None)
                patience = patience or time.monotonic() + longest * PATIENCE
                if not longest or time.monotonic() > patience:
                    return _maintained(upkeep, ticker)
                await asyncio.sleep(until_next_look(leases.values()))

    async def _longest_silence(self, queues: Iterable[str]) -> float:
        """Return the longest lease, in seconds, of those in these queues who were not heard as they should; or 0."""
        at, wanted = await self._app.store.now_ms(), set(queues)
        leases = [
            info.session.lease_ms / 1000
            for info in await self._app.store.sessions()
            if wanted.intersection(info.session.queues) and at - info.heard_at_ms > info.session.lease_ms * SILENT
        ]
        return max(leases, default=0.0)

    async def _chores(self) -> tuple[Upkeep, Ticker]:
        store, hooks, queues = observed(self._app.store, Observers([JobLog()])), self._app.hooks, await self._queues()
        ticker = Ticker(store, None, queues, hooks, self._interval, self._app.registry.client.producers)
        return Upkeep(store, queues, self._interval, hooks), ticker

    async def _queues(self) -> Sequence[str]:
        self.queues = self._given or [info.name for info in await self._app.store.queues()]
        return self.queues

    async def _find_queues(self, upkeep: Upkeep, ticker: Ticker) -> None:
        """Look for new queues, for ever."""
        while True:
            await asyncio.sleep(NEW_QUEUES * self._interval)
            try:
                upkeep.queues = ticker.queues = await self._queues()
            except StoreError as error:
                log.warning("queues_unread: the next round looks for new queues again: %s", error)


def _maintained(upkeep: Upkeep, ticker: Ticker) -> Maintained:
    return Maintained(queues=sorted(upkeep.queues), fired=ticker.fired, **upkeep.counts)
