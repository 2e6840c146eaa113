"""What all requests of one server share: the app, who may ask, what is hidden, and what was read a moment ago."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from ..app.app import Holdfast
from ..errors import StoreError
from ..store import shown
from ..telemetry.metrics.store import StoreMeter
from ..telemetry.recent import Recent
from .auth.callers import Callers
from .auth.hosts import Hosts
from .auth.identity import Identity
from .glance import Glance
from .history import JobHistory
from .operations import Operations
from .problem import Problem
from .redact import Redactor
from .settings import WebSettings
from .shown import Shown
from .stream.reader import LogStream

log = logging.getLogger("holdfast")
T = TypeVar("T")
OPENING = 4.0
"""Seconds that a request waits for the store to be opened; the store's own patience is longer."""


class Site:
    """One server: routes find it with `site_of(request)`."""

    def __init__(self, app: Holdfast, settings: WebSettings, callers: Callers, redactor: Redactor) -> None:
        self.app = app
        self.settings = settings
        self.callers = callers
        self.redactor = redactor
        self.hosts = Hosts(settings.allowed_hosts)
        self.history = JobHistory(app)
        self.open_pages = 0
        """Pages of the dashboard that listen for news."""
        self.shown = Shown(app, redactor, settings.shown_bytes)
        self._opening: asyncio.Task[None] | None = None
        self._opened = False
        self._follow()

    def _follow(self) -> None:
        """Begin with the app's store as it is now, and with nothing known of it."""
        self._store = self.app.store
        self.glance = Glance(self.app)
        self.recent = Recent(self._store)
        self.stream = LogStream(self.recent, self.shown.event)
        self.operations = Operations(self.app)
        self.meter = StoreMeter(self._store)
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Open the app; a store that is away is opened by the first request that finds it back.

        After a close it may start again, on the store that the app has then, as in tests.
        """
        if not self._opened and (self.stopping or self.app.store is not self._store):
            self._follow()
        try:
            await self.opened()
        except StoreError as error:
            log.warning("store_away: the server starts without its store: %s", error)

    async def opened(self) -> Holdfast:
        """Return the app, opened at the first call where no lifespan did it."""
        if not self._opened:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(_heard)
            if not (await asyncio.wait([self._opening], timeout=OPENING))[0]:
                raise StoreError(f"{shown(self.app.store.url)} has not answered for {OPENING:g} seconds")
            self._opening.result()
        return self.app

    async def _open(self) -> None:
        """Open the app, for all who wait for it: a store that is away makes each try a long one."""
        await self.app.open()
        self._opened = True
        self.recent.start()

    async def stop(self) -> None:
        """End streams and those who wait, so that the server can stop; bulk actions end after their page."""
        self._stopping.set()
        await self.recent.close()
        await self.stream.close()
        await self.operations.close()
        self.glance.close()

    @property
    def stopping(self) -> bool:
        """True when the server ends: streams must end, too."""
        return self._stopping.is_set()

    async def while_serving(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns, unless the server stops before."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Problem(503, "stopping", "the server stops: ask again", headers={"Retry-After": "1"})
            return task.result()
        finally:
            task.cancel()
            stop.cancel()

    async def close(self) -> None:
        """End what runs in the background, and close the app."""
        await self.stop()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._opened:
            self._opened = False
            await self.app.close()

    def may_change(self, identity: Identity | None) -> bool:
        """Return whether a caller may change something here, so that pages offer it."""
        return identity is not None and identity.operates and not self.settings.read_only


def _heard(opening: asyncio.Task[None]) -> None:
    """Take an error that nobody waited for: who asks next tries again, and hears of it."""
    if not opening.cancelled():
        opening.exception()


def site_of(connection: HTTPConnection) -> Site:
    """Return the server that a request came to."""
    site: Site = connection.app.state.site
    return site


def caller_of(connection: HTTPConnection) -> Identity:
    """Return who asks, on a route that only known callers reach."""
    identity: Identity = connection.state.identity
    return identity
