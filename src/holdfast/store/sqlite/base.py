"""What a store is made of: two threads, each with its connection, and a transaction for each piece of work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from ...errors import StoreCorrupt
from . import end, sql
from .aside import find, may_be_garbage, mend
from .connection import absent, parse
from .thread import After, ConnectionThread
from .tx import Cache, Tx

T = TypeVar("T")
MOST_MENDED = 5
"""How often a call is made again because garbage was set aside; each time a thousand rows of it."""
SEARCHES = 20
"""A search for garbage that was in vain is not made again for so many times the time that it took."""
_memories: dict[str, ConnectionThread] = {}


class Base:
    """Opened and closed as often as it likes; open while one of those who opened it has not closed it."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.url = url
        self.place = parse(url)
        self.shared = self.transactional = self.place.path is not None
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._sql = sql.statements(self.place.namespace)
        self._cache: Cache = {}
        self._read_cache: Cache = {}
        self._opened = 0
        self._mended = 0
        self._in_vain: dict[str, float] = {}
        self._opening = threading.Lock()
        self._writer = self._make_writer()
        self._reader = ConnectionThread(self.place, writes=False) if self.shared else self._writer

    def _make_writer(self) -> ConnectionThread:
        if self.shared or not self.place.name:
            return ConnectionThread(self.place, writes=True)
        known = f"{self.place.name}/{self.place.namespace}"
        return _memories.setdefault(known, ConnectionThread(self.place, writes=True))

    async def absent(self) -> str | None:
        return await asyncio.to_thread(absent, self.place)

    async def open(self) -> None:
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        with self._opening:
            if self._opened == 0:
                self._writer.start()
                try:
                    self._reader.start()
                except BaseException:
                    self._stop()
                    raise
            self._opened += 1

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0 and self.shared:
                self._stop()

    def forget(self) -> None:
        """What is only in memory, and its thread, are gone. For tests, which make many such stores."""
        with self._opening:
            if self._opened == 0 and not self.shared and not self.place.name:
                self._stop()

    def _stop(self) -> None:
        self._reader.stop()
        self._writer.stop()

    async def _write(self, work: Callable[[Tx], T], *, small: bool = False) -> T:
        def whole(connection: Any, after: After) -> T:
            tx = Tx(connection, self._sql, self._clock(), self._cache, after)
            result = work(tx)
            end.release(tx)
            return result

        return await self._mending(lambda: self._writer.ask(whole, small=small))

    async def _mending(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call gives; one that stumbles on a row of garbage is made again once that is set aside."""
        for _ in range(MOST_MENDED):
            mended = self._mended
            try:
                return await call()
            except Exception as error:
                if not may_be_garbage(error) or (self._mended == mended and not await self._mend(error)):
                    raise
        return await call()

    async def _mend(self, error: Exception | None = None) -> bool:
        """True when garbage was found and set aside. For an error of another cause nobody searches again soon."""
        began, cause = time.monotonic(), repr(error)
        if began < self._in_vain.get(cause, 0.0):
            return False
        found = await self._reader.ask(lambda connection, after: find(self._tx(connection, after)))
        if not found:
            self._in_vain = {cause: time.monotonic() + SEARCHES * (time.monotonic() - began)} if error else {}
            return False

        def whole(connection: Any, after: After) -> None:
            tx = self._tx(connection, after)
            mend(tx, found)
            end.release(tx)

        await self._writer.ask(whole)
        self._mended += 1
        return True

    def _tx(self, connection: Any, after: After) -> Tx:
        return Tx(connection, self._sql, self._clock(), {}, after)

    async def _write_once(self, request: str | None, work: Callable[[Tx], T], answer: Any, *, small: bool = False) -> T:
        """Like `_write`; a repeat of the same request gets the first answer."""
        if request is None:
            return await self._write(work, small=small)

        def once(tx: Tx) -> T:
            first = tx.value("session", "answered", request=request)
            if first is not None:
                known: T = self._answered(request, first, answer)
                return known
            result = work(tx)
            tx.run("session", "answer", request=request, now=tx.now, answer=msgspec.msgpack.encode(result))
            return result

        return await self._write(once, small=small)

    def _answered(self, request: str, first: Any, answer: Any) -> Any:
        try:
            return msgspec.msgpack.decode(first, type=answer)
        except (msgspec.MsgspecError, TypeError) as error:
            raise StoreCorrupt(
                f"{self.place}: request {request} was answered before, and that answer cannot be read ({error}); "
                "look whether its jobs are there, and ask again under another request id"
            ) from error

    async def _read(self, work: Callable[[Tx], T], *, small: bool = False) -> T:
        cache = self._read_cache if self.shared else self._cache

        def whole(connection: Any, after: After) -> T:
            return work(Tx(connection, self._sql, self._clock(), cache, after))

        return await self._mending(lambda: self._reader.ask(whole, small=small))
