"""A way to the server that can be cut, slowed, or left hanging half-open."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Side(asyncio.Protocol):
    """One end of a connection: what comes in goes out at the other, when and if the way says so."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self.other: Side | None = None
        self.transport: asyncio.Transport | None = None
        self.swallowing = False
        self._pending: deque[tuple[float, bytes]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.swallowing:
            return
        if self._way.delay or self._pending or self.other is None or self.other.transport is None:
            loop = asyncio.get_running_loop()
            self._pending.append((loop.time() + self._way.delay, data))
            if len(self._pending) == 1:
                loop.call_later(self._way.delay, self.flush)
        else:
            self.other.transport.write(data)

    def flush(self) -> None:
        """Whatever is due goes out, in its order; a change of the delay must not let a later byte overtake."""
        if self.other is None or self.other.transport is None:
            return  # the server is being reached, and whoever reaches it flushes
        loop = asyncio.get_running_loop()
        while self._pending and (due := self._pending[0][0]) <= loop.time() + 0.001:
            data = self._pending.popleft()[1]
            if not self.swallowing:
                self.other.transport.write(data)
        if self._pending:
            loop.call_later(max(0.0, due - loop.time()), self.flush)

    def connection_lost(self, error: Exception | None) -> None:
        self._way.sides.discard(self)
        if self.other is not None and self.other.transport is not None:
            if self._pending:
                self.flush()
            self.other.transport.close()

    def abort(self) -> None:
        """The connection is gone, with no good-bye."""
        if self.transport is not None:
            self.transport.abort()


class Way:
    """The way of one process to the server: a port of its own."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.sides: set[Side] = set()
        self.port = 0
        self.delay = 0.0
        """Seconds by which each byte is late."""
        self._server: asyncio.Server | None = None
        self._joining: set[asyncio.Task[None]] = set()

    async def open(self) -> Way:
        """It has a port."""
        self._server = await asyncio.get_running_loop().create_server(self._come, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def _come(self) -> Side:
        near = Side(self)
        task = asyncio.get_running_loop().create_task(self._join(near))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)
        return near

    async def _join(self, near: Side) -> None:
        far = Side(self)
        try:
            await asyncio.get_running_loop().create_connection(lambda: far, "127.0.0.1", self._target)
        except OSError:
            near.abort()
            return
        near.other, far.other = far, near
        self.sides |= {near, far}
        if near.transport is None or near.transport.is_closing():
            far.abort()
        near.flush()

    def cut(self) -> None:
        """Every connection breaks at once; a new one may come at any time."""
        for side in tuple(self.sides):
            side.abort()

    def hang(self) -> tuple[Side, ...]:
        """Nothing comes through on the connections of now, and nobody is told; return them."""
        hanging = tuple(self.sides)
        for side in hanging:
            side.swallowing = True
        return hanging

    async def close(self) -> None:
        """Nobody comes through any more."""
        self.cut()
        if self._server is not None:
            self._server.close()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*self._joining, return_exceptions=True)
