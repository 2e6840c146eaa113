"""Wait until the disk or replicas have what was enqueued: one wait for all calls that wait at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from ....errors import StoreError
from .link import RedisLink
from .server import Server

Mark = tuple[RedisLink | None, int]
"""A connection. What it says is said by one server, which has not been replaced meanwhile."""


class Durability:
    """Answers once everything that was written before the question is safe, as the URL asks."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.wanted = bool(server.address.wait_aof or server.address.wait_replicas)
        """Whether the URL asks for it."""
        self._own: Server | None = None
        self._next: dict[str, asyncio.Task[None]] = {}
        self._now: dict[str, asyncio.Task[None]] = {}

    async def mark(self, key: str) -> Mark:
        """Return which connection will be asked about what is written from now on in this key's slot."""
        if self._own is None:
            self._own = Server(self._server.address)
            await self._own.open()
        link = self._own.nodes.known(key)
        if link is None or not link.connected:
            await self._own.ask(["EXISTS", key], key)
        return self._mark(key)

    def _mark(self, key: str) -> Mark:
        link = None if self._own is None else self._own.nodes.known(key)
        return link, 0 if link is None else link.made

    async def wait(self, key: str, mark: Mark) -> None:
        """What was written in this key's slot since the mark is on as many disks and replicas as the URL says."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._after(key, self._now.get(key)))
        try:
            await asyncio.shield(task)
        except StoreError as error:
            raise StoreError(f"the jobs are enqueued, but may not be safe: {error}{_AGAIN}") from error
        if self._mark(key) != mark:
            raise StoreError(
                f"{self._server.address}: the jobs are enqueued, but another server may have taken over before it was "
                f"known that they are safe{_AGAIN}"
            )

    async def _after(self, key: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        task = self._next.pop(key)
        self._now[key] = task
        try:
            await self._ask(key)
        finally:
            if self._now.get(key) is task:
                del self._now[key]

    async def _ask(self, key: str) -> None:
        """A connection of its own waits, for it is blocked meanwhile; its own small write comes after all others."""
        own = self._own
        if own is None:
            raise StoreError(f"{self._server.address} was closed meanwhile")
        address = self._server.address
        patience = max(1, int(max(address.timeout - 1, address.timeout / 2) * 1000))
        asked: list[Any] = ["WAIT", address.wait_replicas, patience]
        if address.wait_aof:
            asked = ["WAITAOF", 1, address.wait_replicas, patience]
        _, reply = await own.ask_all([["HSET", key, "synced", 1], asked], key, repeat=False)
        got = reply if isinstance(reply, list) else [1, reply]
        if got[0] < address.wait_aof or got[1] < address.wait_replicas:
            disk = " and not the disk" if got[0] < address.wait_aof else ""
            raise StoreError(f"{address}: within {patience / 1000:g} s only {got[1]} replicas{disk} had them")

    async def close(self) -> None:
        """Close the connections that wait."""
        own, self._own = self._own, None
        if own is not None:
            await own.close()


_AGAIN = "; enqueueing the same ids again is safe"
