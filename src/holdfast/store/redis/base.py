"""What every part of the store stands on: where the server is, whether it is open, and what time it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ...core.limit import QueueSettings
from ...core.transition import Reply
from .ear import Ear
from .existing import place_of
from .keys import Keys
from .look import Reader
from .place import check_namespace, parse
from .server import Server
from .sync import Durability


class Base:
    """A store that can be opened and closed."""

    def __init__(self, where: Any, *, clock: Callable[[], int] | None = None, namespace: str | None = None) -> None:
        self._where = where
        self.place = parse(where) if isinstance(where, str) else place_of(where)
        if namespace is not None:
            self.place = msgspec.structs.replace(self.place, namespace=check_namespace(namespace))
        self.url = where if isinstance(where, str) and namespace is None else self.place.url
        self._clock = clock
        self._keys = Keys(self.place.namespace)
        self._opened = 0
        self._known: set[str] = set()
        self._shift = 0
        self._heard: float | None = None
        self._settings: dict[bytes, QueueSettings] = {}
        self._opening = asyncio.Lock()
        self._make()

    def _make(self) -> None:
        self._server = Server(self.place)
        self._reader = Reader(self._server, self._keys)
        self._ear = Ear(self._server, self._keys)
        self._durability = Durability(self._server)

    async def absent(self) -> str | None:
        return None  # nothing is made before there are jobs

    async def open(self) -> None:
        async with self._opening:
            if self._opened == 0:
                self._make()
                try:
                    await self._server.open()
                except BaseException:
                    await self._server.close()
                    raise
            self._opened += 1

    async def close(self) -> None:
        async with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0:
                await self._ear.close()
                await self._durability.close()
                await self._server.close()

    async def now_ms(self) -> int:
        if self._clock is not None:
            return self._clock()
        seconds, micros = await self._server.ask(["TIME"], None)
        return int(seconds) * 1000 + int(micros) // 1000

    def _now(self) -> str:
        """Return the time for a call: the server's own, unless a test has another."""
        return "" if self._clock is None else str(self._clock())

    async def _know(self, *queues: str) -> None:
        """The names are in the list of queues. Those that are there need no memory, of which there may be none left."""
        new = [name for name in queues if name not in self._known]
        if new:
            key = self._keys.of_store("queues")
            found = await self._server.ask(["SMISMEMBER", key, *new], key)
            if lacking := [name for name, there in zip(new, found, strict=True) if not there]:
                await self._server.ask(["SADD", key, *lacking], key)
            self._known.update(new)

    async def _hear(self, lease_ms: int | None = None) -> int:
        """Somebody was heard now. Return by how much expiries moved with it, because nobody was for a while."""
        now = time.monotonic() * 1000 if self._clock is None else float(self._clock())
        if self._heard is not None and 0 <= now - self._heard < min(1000, (lease_ms or 6000) // 6):
            return 0
        key, lease = self._keys.of_store("store"), "" if lease_ms is None else lease_ms
        version, shift, gap = await self._server.call("hear", [key], self._now(), lease)
        self._heard = now
        self._shift = shift
        await self._server.refresh_library(version)
        return int(gap)

    async def _word(self, name: str, queue: str, *args: Any) -> Reply:
        reply = await self._server.call(name, [self._keys.declared(queue)], self._now(), *args)
        return Reply(reply.decode())
