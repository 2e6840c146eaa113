"""What a store is made of: two threads, each with its connection, and a transaction for each piece of work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from . import end, sql
from .connection import absent, parse
from .thread import After, ConnectionThread
from .tx import Cache, Tx

T = TypeVar("T")
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

        return await self._writer.ask(whole, small=small)

    async def _write_once(self, request: str | None, work: Callable[[Tx], T], answer: Any, *, small: bool = False) -> T:
        """Like `_write`; a repeat of the same request gets the first answer."""
        if request is None:
            return await self._write(work, small=small)

        def once(tx: Tx) -> T:
            first = tx.value("session", "answered", request=request)
            if first is not None:
                known: T = msgspec.msgpack.decode(first, type=answer)
                return known
            result = work(tx)
            tx.run("session", "answer", request=request, now=tx.now, answer=msgspec.msgpack.encode(result))
            return result

        return await self._write(once, small=small)

    async def _read(self, work: Callable[[Tx], T], *, small: bool = False) -> T:
        cache = self._read_cache if self.shared else self._cache
        return await self._reader.ask(
            lambda connection, after: work(Tx(connection, self._sql, self._clock(), cache, after)), small=small
        )
