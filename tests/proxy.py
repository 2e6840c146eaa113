"""A proxy on the loopback that loses what it is told to lose."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress


class Proxy:
    """Passes bytes on between clients and a server, until the reply at which it cuts the connection."""

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: set[asyncio.Task[None]] = set()
        self.port = 0
        self.replies = 0
        self.cut_at: set[int] = set()
        """The numbers of the replies that are lost, and their connections with them."""
        self.cuts = 0
        self.silent = False
        """No reply is passed on, as of a server that hangs: it takes connections all the same."""

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._accepting, return_exceptions=True)  # those that are half-way in come in, and go
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, *(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    @property
    def url(self) -> str:
        """The URL by which clients come."""
        return f"redis://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Every connection is cut, whatever is under way on it."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepting = asyncio.current_task()
        assert accepting is not None
        self._accepting.add(accepting)
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        for source, sink, replies in ((reader, back, False), (there, writer, True)):
            task = asyncio.create_task(self._pass_on(source, sink, replies, (writer, back)))
            self._tasks.add(task)

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        replies: bool,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if replies:
                    self.replies += 1
                    if self.silent:
                        continue
                    if self.replies in self.cut_at:
                        self.cuts += 1
                        break
                sink.write(data)
                await sink.drain()
        for writer in both:
            writer.close()
