"""One connection, many calls in flight: what is asked at the same time shares a packet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError

from ...prompt import Prompt
from .address import RedisAddress
from .busy_poll import BusyPoll
from .wire import RedisWire

Command = Sequence[Any]
Connect = Callable[[], Awaitable[AbstractConnection]]
CONNECT_TIMEOUT = 5.0
GOODBYE = 1.0
LARGE = 64 * 1024
"""A packet of this size is written at once, and waited for."""
CHECKS = 4
"""How many times, within the time that a reply may take, it is checked whether there was one."""
PING: bytes = pack_command(("PING",))


class Unsent(Exception):
    """The server was not reached: nothing was done."""


class Lost(Exception):
    """The reply did not come: it is not known whether the call was done."""


async def connect(address: RedisAddress, host: str, port: int) -> AbstractConnection:
    """Return a connection that is set up, or raise `Unsent`."""
    patience = min(CONNECT_TIMEOUT, address.timeout)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "db": address.db,
        "username": address.username,
        "password": address.password,
        "socket_timeout": None,  # `RedisLink` has a limit of its own
        "socket_connect_timeout": patience,
        "protocol": 2,
        **address.settings,
    }
    try:
        connection = _made(address, options)
    except OSError as error:  # redis-py reads a file of its own to tell its version
        raise Unsent(str(error)) from error
    try:
        async with asyncio.timeout(patience) as limit:  # a server that hangs takes connections, and does not greet
            await connection.connect()  # type: ignore[no-untyped-call]
    except (RedisError, OSError, TimeoutError) as error:
        cut(connection)
        told = f"no greeting within {patience:g} s" if limit.expired() else str(error) or type(error).__name__
        raise Unsent(told) from error
    except BaseException:  # it is not wanted any more
        cut(connection)
        raise
    return connection


def cut(connection: AbstractConnection) -> None:
    """End a connection at once, whether or not its other end takes what was written."""
    if connection._writer is not None:
        connection._writer.transport.abort()
    with suppress(Exception):
        connection._close()  # type: ignore[no-untyped-call]


def _made(address: RedisAddress, options: dict[str, Any]) -> AbstractConnection:
    if address.socket is not None:
        unix = {name: value for name, value in options.items() if name not in ("host", "port")}
        return UnixDomainSocketConnection(path=address.socket, **unix)
    if not address.tls:
        return Connection(**{name: value for name, value in options.items() if not name.startswith("ssl_")})
    return SSLConnection(**{**options, **address.tls_settings()})


class RedisLink:
    """A connection that is made when needed, and made again when it broke."""

    def __init__(self, make: Connect, timeout: float, *, polls: bool = True) -> None:
        self._make = make
        self._timeout = timeout
        self._polls = polls
        self._busy_poll: BusyPoll | None = None
        self._connection: AbstractConnection | None = None
        self._transport: Any = None
        self._loop: asyncio.AbstractEventLoop  # in which it was connected
        self._connecting = asyncio.Lock()
        self._waiting: deque[Prompt[Any]] = deque()
        self._unwritten: list[bytes] = []
        self._watchdog: asyncio.TimerHandle | None = None
        self._answered = 0
        self._closed = False
        self._failures = 0
        self._problem = ""
        self.made = 0
        """How often it was connected."""

    @property
    def connected(self) -> bool:
        """True while the connection stands."""
        return self._connection is not None

    def connection(self) -> Awaitable[AbstractConnection]:
        """Return another connection to the same node."""
        return self._make()

    async def ask(self, command: Command, *, notifies: bool = False, polls: bool = False) -> Any:
        """Return the reply, or the error that the server answered with. `polls`: nobody else is to work meanwhile.

        A server writes first to the connection that it found something for last. A call that publishes a message
        comes after a `PING`: then the listener, for which a caller may wait, hears before this caller has its reply.
        """
        connection = self._connection or await self._connected()
        future: Prompt[Any] = Prompt(self._loop)
        data = pack_command(command if type(command) is tuple else tuple(command))
        alone = not self._waiting
        if notifies and not self._waiting:
            self._put(connection, PING + data, (Prompt(self._loop), future))
        else:
            self._put(connection, data, (future,))
        if len(data) > LARGE:
            await self._drained(connection)
        elif polls and alone and self._busy_poll is not None:
            return await self._busy_poll.reply(future)
        return await future

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies, errors that the server answered with among them."""
        connection = self._connection or await self._connected()
        data = b"".join([pack_command(tuple(command)) for command in commands])
        futures: list[Prompt[Any]] = [Prompt(self._loop) for _ in commands]
        self._put(connection, data, futures)
        if len(data) > LARGE:
            await self._drained(connection)
        if futures:
            await futures[-1]  # which is answered after all others
        return [future.result() for future in futures]

    def _put(self, connection: AbstractConnection, data: bytes, futures: Sequence[Prompt[Any]]) -> None:
        """Write the bytes now, or at the end of this turn of the loop, with all others of it."""
        idle = not self._waiting
        self._waiting.extend(futures)
        if self._watchdog is None:
            self._watch(connection, 0)
        if self._unwritten:
            self._unwritten.append(data)
        elif idle:
            self._transport.write(data)
        else:
            self._unwritten.append(data)
            # Whatever else is asked in this turn of the loop goes with it.
            self._loop.call_soon(self._write, connection)
        if len(data) > LARGE:
            self._write(connection)

    def _write(self, connection: AbstractConnection) -> None:
        if self._unwritten and self._connection is connection:
            data, self._unwritten = b"".join(self._unwritten), []
            self._transport.write(data)

    async def _drained(self, connection: AbstractConnection) -> None:
        try:
            if connection._writer is not None:
                await connection._writer.drain()
        except OSError as error:
            self._break(connection, str(error))

    def _watch(self, connection: AbstractConnection, quiet: int) -> None:
        self._watchdog = self._loop.call_later(self._timeout / CHECKS, self._check, connection, self._answered, quiet)

    def _check(self, connection: AbstractConnection, answered: int, quiet: int) -> None:
        """Give up a server that was asked and has answered nothing for the time-out."""
        self._watchdog = None
        if not self._waiting or self._connection is not connection:
            return
        quiet = quiet + 1 if answered == self._answered else 0
        if quiet == CHECKS:
            self._break(connection, f"no reply within {self._timeout:g} s")
        else:
            self._watch(connection, quiet)

    async def _connected(self) -> AbstractConnection:
        failures = self._failures
        async with self._connecting:
            if self._connection is None:
                if failures != self._failures:  # while others tried, and this one waited for them
                    raise Unsent(self._problem)
                connection = await self._tried()
                if self._closed:
                    cut(connection)
                    raise Unsent("the connection was given up")
                self._connection = connection
                self._loop = asyncio.get_running_loop()
                self.made += 1
                wire = RedisWire(connection, self._on_reply, lambda reason: self._break(connection, reason))
                self._transport = wire.transport
                if self._polls:
                    self._busy_poll = BusyPoll.of(wire.transport, self._loop, wire.data_received)
            return self._connection

    async def _tried(self) -> AbstractConnection:
        try:
            return await self._make()
        except Unsent as error:
            self._failures += 1
            self._problem = str(error)
            raise

    def _on_reply(self, reply: Any) -> None:
        if not self._waiting:
            self.drop()  # nothing was asked: what comes next cannot be told apart
            return
        future = self._waiting.popleft()
        self._answered += 1
        future.tell(reply)

    def _break(self, connection: AbstractConnection, reason: str) -> None:
        """Fail every call that waits for a reply of this connection; the next call makes another."""
        if self._connection is not connection:
            return
        self._connection = self._transport = self._busy_poll = None
        failed, self._waiting, self._unwritten = self._waiting, deque(), []
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        for future in failed:
            future.fail(Lost(reason))
        cut(connection)  # without waiting: this may run where nothing can be awaited

    def drop(self) -> None:
        """Give up the connection; the next call connects anew."""
        if self._connection is not None:
            self._break(self._connection, "the connection was given up")

    async def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        writer = None if self._connection is None else self._connection._writer
        self.drop()
        if writer is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await writer.wait_closed()  # TLS says goodbye, too
