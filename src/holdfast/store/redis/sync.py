"""Waiting until the disk or replicas have what was enqueued: one wait for all who wait at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from ...errors import StoreError
from .server import Server


class Durability:
    """Answers once everything that was written before the question is safe, as the URL asks."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: Server | None = None
        self._next: dict[str, asyncio.Task[None]] = {}
        self._now: dict[str, asyncio.Task[None]] = {}

    async def wait(self, key: str) -> None:
        """What was written in this key's slot is on as many disks and replicas as the URL says."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._after(key, self._now.get(key)))
        await asyncio.shield(task)

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
        place = self._server.place
        if self._own is None:
            self._own = Server(place)
            await self._own.open()
        patience = max(1, int(place.timeout * 1000) - 1000)
        asked: list[Any] = ["WAIT", place.wait_replicas, patience]
        if place.wait_aof:
            asked = ["WAITAOF", 1, place.wait_replicas, patience]
        _, reply = await self._own.ask_all([["HSET", key, "synced", 1], asked], key)
        got = reply if isinstance(reply, list) else [1, reply]
        if got[0] < place.wait_aof or got[1] < place.wait_replicas:
            disk = " and not the disk" if got[0] < place.wait_aof else ""
            raise StoreError(
                f"{place}: the jobs are enqueued, but within {patience / 1000:g} s only {got[1]} replicas{disk} had "
                "them; enqueueing the same ids again is safe"
            )

    async def close(self) -> None:
        """Nothing is held open."""
        own, self._own = self._own, None
        if own is not None:
            await own.close()
