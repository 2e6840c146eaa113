"""The application on a port of its own, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette

from ..distribution import require
from ..errors import ConfigError
from .auth.hosts import is_loopback
from .site import Site

require("holdfast serve", "uvicorn", extra="web")

import uvicorn  # noqa: E402

if TYPE_CHECKING:
    from uvicorn.config import Config

DRAIN = 10
"""Seconds that requests have to end, once the server was told to stop."""
BACKLOG = 2048


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens."""

    host: str = "127.0.0.1"
    port: int = 8080
    root_path: str = ""
    """The path below which a proxy shows it, and which the proxy takes away."""
    tls_cert: str | None = None
    tls_key: str | None = None

    def address(self, port: int) -> str:
        """Return the address of the first page."""
        scheme = "http" if self.tls_cert is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}{self.root_path}/"


class WebServer(uvicorn.Server):
    """Stops in two steps: streams and waits are ended first, and then what is left has some seconds."""

    def __init__(self, config: Config, site: Site, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear SIGTERM and SIGINT while the block lasts; the second one ends it at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: object) -> None:
        """Stop; the second time, without waiting for anything."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams and waits, then the connections."""
        await self._site.stop()
        await super().shutdown(sockets)


def check_place(site: Site, place: Place) -> None:
    """Raise for a server that would ask nobody who they are, and be heard on other machines."""
    if site.callers.open and not site.settings.insecure and not is_loopback(place.host):
        raise ConfigError(
            f"--host {place.host} is heard on other machines: give --token, --token-file or --users, "
            "or say --insecure: anyone who reaches it may then change anything"
        )
    if (place.tls_cert is None) != (place.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together: give both")


def listening(place: Place) -> socket.socket:
    """Return a socket on the place, or say why there is none."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"--host {place.host}: there is no such address ({error.strerror or error})") from None
    listener = socket.socket(family, kind, protocol)  # asyncio sends at once only where it knows that this is TCP
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"port {place.port} of {place.host} cannot be had ({error.strerror}): choose another with --port"
        ) from None
    listener.setblocking(False)
    return listener


async def serve(web: Starlette, place: Place, on_started: Callable[[str], None]) -> None:
    """Serve the application until SIGTERM or SIGINT."""
    site: Site = web.state.site
    check_place(site, place)
    listener = listening(place)
    address = place.address(listener.getsockname()[1])
    config = uvicorn.Config(
        web, root_path=place.root_path, lifespan="on", log_config=None, access_log=False, server_header=False,
        ssl_certfile=place.tls_cert, ssl_keyfile=place.tls_key, timeout_graceful_shutdown=DRAIN,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        listener.close()
        raise ConfigError(f"--tls-cert {place.tls_cert}: {error}") from None
    await WebServer(config, site, lambda: on_started(address)).serve([listener])
