"""Poolers in transaction mode, between a store and its server: PgBouncer where it is, and a small one of our own."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from servers import NOBODY, PATIENCE, free_port
from support import eventually

IDLE = b"I"
SSL_REQUEST = 80877103
_numbers = itertools.count(1)


@functools.cache
def bouncer() -> tuple[str, dict[str, str]] | None:
    """Return the binary of PgBouncer with its environment, if it can be had."""
    folder = Path(sys.prefix) / "pgbouncer"
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:{folder / 'usr/sbin'}")
    if found is None:
        return None
    libraries = ":".join(str(path.parent) for path in folder.glob("usr/lib/*/libcares.so.2"))
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else dict(os.environ)
    works = subprocess.run([found, "--version"], env=environment, capture_output=True, check=False).returncode == 0
    return (found, environment) if works else None


def poolers() -> list[str]:
    """Return the names of those that this machine has."""
    return ["our own", *(["pgbouncer"] if bouncer() else [])]


@asynccontextmanager
async def pooler(name: str, target: int) -> AsyncIterator[int]:
    """Yield the port of a pooler with two connections to a server."""
    if name == "pgbouncer":
        async with pgbouncer(target) as port:
            yield port
    else:
        async with Pooler(target) as ours:
            yield ours.port


@asynccontextmanager
async def pgbouncer(target: int) -> AsyncIterator[int]:
    """Yield the port of PgBouncer."""
    found = bouncer()
    assert found is not None
    binary, environment = found
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="holdfast-pgbouncer-") as folder:
        settings = Path(folder) / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = user=holdfast host=127.0.0.1 port={target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
            "default_pool_size = 2\nmax_client_conn = 100\n"
        )
        process = _start(binary, settings, environment)
        try:
            await eventually(lambda: _answers(port), "PgBouncer answers")
            yield port
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _start(binary: str, settings: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """PgBouncer refuses to run as root."""
    settings.parent.chmod(0o755)
    user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
    command = [binary, "-q", str(settings)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, **user)  # type: ignore[call-overload,no-any-return]


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


class Server:
    """One connection to the server, which clients have for a transaction each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, greeting: bytes) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = greeting


class Pooler:
    """Lends its two connections for one transaction at a time, so that nothing else of a session survives."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._idle: asyncio.Queue[Server] = asyncio.Queue()
        self._made = 0
        self._clients: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Pooler:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listener.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        while not self._idle.empty():
            self._idle.get_nowait().writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._serve(reader, writer)
        finally:
            self._clients.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await self._startup(reader, writer)
        server = await self._server(startup)
        self._idle.put_nowait(server)
        key = b"K" + struct.pack("!iii", 12, 1_000_000 + next(_numbers), 1)
        writer.write(server.greeting + key + b"Z" + struct.pack("!i", 5) + IDLE)
        while True:
            first = await _message(reader)
            if first[:1] == b"X":
                return
            server = await self._server(startup)
            if await self._transaction(first, reader, writer, server):
                self._idle.put_nowait(server)
            else:
                self._made -= 1
                server.writer.close()

    async def _transaction(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Server
    ) -> bool:
        """Pass on until the server says that no transaction is open. False: the client went away in the middle."""
        message = first
        try:
            while True:
                server.writer.write(message)
                if message[:1] in b"QS" and await self._reply(writer, server) == IDLE:
                    return True
                message = await _message(reader)
                if message[:1] == b"X":
                    return False
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return False

    async def _reply(self, writer: asyncio.StreamWriter, server: Server) -> bytes:
        while True:
            message = await _message(server.reader)
            writer.write(message)
            if message[:1] == b"Z":
                return message[5:6]

    async def _startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            (size,) = struct.unpack("!i", head := await reader.readexactly(4))
            body = await reader.readexactly(size - 4)
            if struct.unpack("!i", body[:4])[0] != SSL_REQUEST:
                return head + body
            writer.write(b"N")

    async def _server(self, startup: bytes) -> Server:
        if self._idle.empty() and self._made < 2:
            self._made += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
            writer.write(startup)
            greeting = b""
            while (message := await _message(reader))[:1] != b"Z":
                greeting += message if message[:1] in b"RS" else b""
            return Server(reader, writer, greeting)
        return await self._idle.get()


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    (size,) = struct.unpack("!i", head[1:])
    return head + await reader.readexactly(size - 4)
