"""The port of a worker: health and metrics over HTTP, served by a thread of its own.

So it answers while a handler holds up the worker's event loop, which is when it is asked most of all.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from ...errors import ConfigError
from ...log import with_logger
from .http import MOST_HEAD, HttpServer, Route

log = logging.getLogger("holdfast")
LOOPBACK = "127.0.0.1"
Closing = Callable[[], Awaitable[None]]


class Address(msgspec.Struct, frozen=True):
    """Where to listen: a port of a host, or the path of a socket in the file system."""

    option: str
    """How the user calls it, for errors."""
    port: int = 0
    host: str = LOOPBACK
    path: str | None = None

    def bound(self) -> socket.socket:
        """Return a socket that listens there; raise when it cannot be had."""
        try:
            if self.path is not None:
                return _unix(self.path)
            family, _, _, _, where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            return socket.create_server(where[:2], family=family, reuse_port=False)
        except OSError as error:
            raise ConfigError(f"{self.option}={self.path or self.port}: {self._why(error)}") from None

    def _why(self, error: OSError) -> str:
        where = self.path or f"{self.host}:{self.port}"
        if error.errno == errno.EADDRINUSE:
            return f"another program listens on {where}: choose another port, or 0 for one that is free"
        if error.errno == errno.EACCES:
            return f"this user may not listen on {where}: choose a port from 1024 on"
        return f"cannot listen on {where}: {error.strerror or error}"


def _unix(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        listening.bind(path)
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


class Port:
    """Serves routes at some addresses from a thread of its own, from `open` to `close`."""

    def __init__(self, served: Sequence[tuple[Address, Mapping[str, Route]]], closing: Sequence[Closing] = ()) -> None:
        self._served = served
        self._closing = closing
        """What to await in the thread's loop at the end."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event
        self._thread: threading.Thread | None = None
        self.urls: list[str] = []
        """Where it listens, in the order of the addresses."""

    def open(self) -> None:
        """Listen from now on; raise when an address cannot be had."""
        sockets = list[socket.socket]()
        try:
            for address, _ in self._served:
                sockets.append(address.bound())
        except BaseException:
            for each in sockets:
                each.close()
            raise
        self.urls = [_url(each) for each in sockets]
        begun = threading.Event()
        self._thread = threading.Thread(
            target=with_logger(lambda: asyncio.run(self._serve(sockets, begun))), name="holdfast-port", daemon=True
        )
        self._thread.start()
        begun.wait()

    async def _serve(self, sockets: Sequence[socket.socket], begun: threading.Event) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        servers = []
        for listening, (_, routes) in zip(sockets, self._served, strict=True):
            serve = HttpServer(routes).serve
            start = asyncio.start_unix_server if listening.family == socket.AF_UNIX else asyncio.start_server
            servers.append(await start(serve, sock=listening, limit=MOST_HEAD))
        begun.set()
        await self._over.wait()
        for server in servers:
            server.close()
        for close in self._closing:
            try:
                await close()
            except Exception:
                log.exception("port_failed: its end")

    def close(self) -> None:
        """Listen no more."""
        thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._over.set)
            thread.join(timeout=5.0)

    def __enter__(self) -> Port:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _url(listening: socket.socket) -> str:
    if listening.family == socket.AF_UNIX:
        return f"unix:{listening.getsockname()}"
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
