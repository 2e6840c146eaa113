"""Connections for one event loop: made when needed, up to a limit, and closed when broken."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from ....errors import StoreBusy, StoreClosed
from ..url import PostgresAddress
from .connect import SESSION, Connection, connect, connect_patiently
from .errors import Unreachable, is_rolled_back, translate

LEAST_LOCK = 1.0
"""For so many seconds a call waits for a lock even without patience: on a busy server others have it for a moment."""


class PostgresPool:
    """Connections for one event loop: made when needed, up to a limit, and dropped when broken."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(address.pool)
        self.made = 0
        """How many connections there have been."""
        self._lock_timeout = str(round(max(LEAST_LOCK, address.patience) * 1000))
        self._closed = False

    @asynccontextmanager
    async def connection(self, *, patient: bool = True) -> AsyncIterator[Connection]:
        """Yield a connection that no other call uses. An impatient caller tries again by itself."""
        connection = await connect_patiently(self._address.patience if patient else 0, self._acquire)
        try:
            try:
                yield connection
            except BaseException as error:
                await _give_up(connection, error)
                raise
            finally:
                await self._put_back(connection)
        finally:
            self._room.release()

    async def _acquire(self) -> Connection:
        await self._enter()
        try:
            if self._closed:
                raise StoreClosed(f"{self._address} is closed")
            return await self._take() or await self._connect()
        except BaseException:
            self._room.release()
            raise

    async def _connect(self) -> Connection:
        """Return a new connection, whose statements wait for a lock no longer than the patience lasts."""
        connection = await connect(self._address)
        self.made += 1
        if self._address.direct:
            try:
                await connection.execute(SESSION, (self._lock_timeout,), prepare=False)
            except psycopg.Error as error:
                await connection.close()
                raise Unreachable(str(translate(error, self._address))) from error
            except BaseException:  # the caller is gone
                await connection.close()
                raise
        return connection

    async def _enter(self) -> None:
        """Wait until there is room for one more."""
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(self._address.patience):  # `wait_for` may lose a cancellation before Python 3.12
                await self._room.acquire()
        except TimeoutError:
            raise StoreBusy(
                f"{self._address}: all {self._address.pool} connections were in use for over "
                f"{self._address.patience:g} s; raise pool="
            ) from None

    async def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.closed:
                continue
            if not _has_news(connection):
                return connection
            await connection.close()
        return None

    async def _put_back(self, connection: Connection) -> None:
        if connection.closed:
            return
        if self._closed:
            await connection.close()
        else:
            self._idle.append(connection)

    async def forget_idle(self) -> None:
        """Close idle connections: the server was away, and they are lost."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def close(self) -> None:
        """Close every connection, and open no more."""
        self._closed = True
        await self.forget_idle()


def _has_news(connection: Connection) -> bool:
    """True when the server said something unasked, as it does when it ends: a call would find that out too late."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _give_up(connection: Connection, error: BaseException) -> None:
    """A call that went wrong may keep its connection only when that is at rest, and can have had no part in it.

    A handler may have left something in the session that makes every call fail there.
    """
    suspect = isinstance(error, psycopg.Error) and not is_rolled_back(error)
    at_rest = connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    if suspect or not at_rest:
        await connection.close()
