"""The database behind all parts of the store: a thread that writes, one that reads, a transaction for each call."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import msgspec

from ...core.bound import MOST_MENDED
from ...errors import StoreCorrupt
from . import sql
from .connection.ask import TxWork, Work, system_ms
from .connection.connection import absent
from .connection.thread import ConnectionThread
from .repair.repair import find_unreadable, may_be_unreadable, repair
from .tx import Cache, Tx
from .url import SqliteAddress

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
SEARCH_PAUSE = 20
"""A search for unreadable rows that found none is not made again for so many times the time that it took."""
_memories: dict[str, ConnectionThread] = {}
if hasattr(os, "register_at_fork"):  # their threads stay with the parent
    os.register_at_fork(after_in_child=_memories.clear)


class Database:
    """Runs work in transactions. It is open until everyone who opened it has closed it."""

    def __init__(self, address: SqliteAddress, clock: Callable[[], int] | None = None) -> None:
        self.address = address
        self.shared = address.path is not None
        self.clock = clock or system_ms
        self._sql = sql.statements(address.namespace)
        self._cache: Cache = {}
        self._read_cache: Cache = {}
        self._opened = 0
        self._repairs = 0
        self._next_search: dict[str, float] = {}
        self._opening = threading.Lock()
        self.writer = self._make_writer()
        self.reader = ConnectionThread(address, writes=False) if self.shared else self.writer

    def _make_writer(self) -> ConnectionThread:
        if self.shared or not self.address.name:
            return ConnectionThread(self.address, writes=True)
        known = f"{self.address.name}/{self.address.namespace}"
        return _memories.setdefault(known, ConnectionThread(self.address, writes=True))

    async def absent(self) -> str | None:
        """Return the path at which `open` would make a new store, or `None`."""
        return await asyncio.to_thread(absent, self.address)

    async def open(self) -> None:
        """Open both connections, unless they are open."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        with self._opening:
            if self._opened == 0:
                self.writer.start()
                try:
                    self.reader.start()
                except BaseException:
                    self._stop()
                    raise
            self._opened += 1

    async def close(self) -> None:
        """Close both connections, if no other opener needs them."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0 and self.shared:
                self._stop()

    def forget(self) -> None:
        """Drop a memory database without a name, and its thread. For tests, which make many of them."""
        with self._opening:
            if self._opened == 0 and not self.shared and not self.address.name:
                self._stop()

    def _stop(self) -> None:
        self.reader.stop()
        self.writer.stop()

    async def write(self, work: Callable[[Tx, *Ts], T], *values: *Ts, small: bool = False, ahead: bool = False) -> T:
        """Return what the work returned for these values, once it is committed (`ahead`: `ConnectionThread.ask`)."""
        whole = TxWork(self._sql, self.clock, self._cache, work, values)
        return await self._repairing(self.writer, whole, small, ahead)

    async def write_once(
        self, request: str | None, answer: Any, work: Callable[[Tx, *Ts], T], *values: *Ts, small: bool = False
    ) -> T:
        """Write, unless the request was answered before: then return the first answer, of the type `answer`."""
        if request is None:
            return await self.write(work, *values, small=small)

        def once(tx: Tx) -> T:
            first = tx.value("session", "answered", request=request)
            if first is not None:
                known: T = self._answered(request, first, answer)
                return known
            result = work(tx, *values)
            tx.run("session", "answer", request=request, now=tx.now, answer=msgspec.msgpack.encode(result))
            return result

        return await self.write(once, small=small)

    def _answered(self, request: str, first: bytes, answer: Any) -> Any:
        try:
            return msgspec.msgpack.decode(first, type=answer)
        except (msgspec.MsgspecError, TypeError) as error:
            raise StoreCorrupt(
                f"{self.address}: request {request} was answered before, and that answer cannot be read ({error}); "
                "look whether its jobs are there, and ask again under another request id"
            ) from error

    async def read(self, work: Callable[[Tx, *Ts], T], *values: *Ts, small: bool = False) -> T:
        """Return what the work returned for these values; it saw one state of the database and changed nothing."""
        cache = self._read_cache if self.shared else self._cache
        whole = TxWork(self._sql, self.clock, cache, work, values)
        return await self._repairing(self.reader, whole, small)

    async def _repairing(self, thread: ConnectionThread, whole: Work[T], small: bool, ahead: bool = False) -> T:
        """Return what the work returns; if it fails on an unreadable row, it is done again once that is set aside."""
        for _ in range(MOST_MENDED):
            repairs = self._repairs
            try:
                return await thread.ask(whole, small=small, ahead=ahead)
            except Exception as error:
                if not may_be_unreadable(error) or (self._repairs == repairs and not await self.repair(error)):
                    raise
        return await thread.ask(whole, small=small, ahead=ahead)

    async def repair(self, error: Exception | None = None) -> bool:
        """Set unreadable rows aside; return whether there were any. A search that was in vain is not repeated soon."""
        began, cause = time.monotonic(), repr(error)
        if began < self._next_search.get(cause, 0.0):
            return False
        found = await self.reader.ask(TxWork(self._sql, self.clock, {}, find_unreadable, ()))
        if not found:
            pause = SEARCH_PAUSE * (time.monotonic() - began)
            self._next_search = {cause: time.monotonic() + pause} if error else {}
            return False
        await self.writer.ask(TxWork(self._sql, self.clock, {}, repair, (found,)))
        self._repairs += 1
        return True
