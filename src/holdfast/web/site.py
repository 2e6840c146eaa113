"""What all requests of one server share: the app, who may ask, what is hidden, and what was read a moment ago."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager, nullcontext

from starlette.requests import HTTPConnection

from ..app.app import Holdfast
from ..errors import StoreError
from .auth.callers import Callers
from .auth.hosts import Hosts
from .auth.identity import Identity
from .glance import Glance
from .redact import Redactor
from .settings import WebSettings

log = logging.getLogger("holdfast")


class Site:
    """One server: routes find it with `site_of(request)`."""

    def __init__(self, app: Holdfast, settings: WebSettings, callers: Callers, redactor: Redactor) -> None:
        self.app = app
        self.settings = settings
        self.callers = callers
        self.redactor = redactor
        self.hosts = Hosts(settings.allowed_hosts)
        self.glance = Glance(app)
        self._opening = asyncio.Lock()
        self._opened = False

    async def start(self) -> None:
        """Open the app; a store that is away is opened by the first request that finds it back."""
        try:
            await self.opened()
        except StoreError as error:
            log.warning("store_away: the server starts without its store: %s", error)

    async def opened(self) -> Holdfast:
        """Return the app, opened at the first call where no lifespan did it."""
        if not self._opened:
            async with self._opening:
                if not self._opened:
                    await self.app.open()
                    self._opened = True
        return self.app

    async def close(self) -> None:
        """End what runs in the background, and close the app."""
        if self._opened:
            self._opened = False
            await self.app.close()

    def acting(self, identity: Identity) -> AbstractContextManager[object]:
        """Return a block in which whatever is done is written down as done by this caller."""
        acting_as = getattr(self.app, "acting_as", None)
        return nullcontext() if acting_as is None else acting_as(identity.name)

    def may_change(self, identity: Identity | None) -> bool:
        """Return whether a caller may change something here, so that pages offer it."""
        return identity is not None and identity.operates and not self.settings.read_only


def site_of(connection: HTTPConnection) -> Site:
    """Return the server that a request came to."""
    site: Site = connection.app.state.site
    return site


def caller_of(connection: HTTPConnection) -> Identity:
    """Return who asks, on a route that only known callers reach."""
    identity: Identity = connection.state.identity
    return identity
