"""Redis, Valkey and a cluster, as the contract suite needs them."""

from __future__ import annotations

import itertools
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.store import Store
from holdfast.store.redis import RedisStore
from holdfast.store.redis.keys import ENDINGS, Keys, short
from holdfast.testing.contract import Clock, Harness

sys.path.insert(0, str(Path(__file__).parent.parent))
import servers

STAY = {"queue", "policies", "declared", "adjusted", "limits", "events", "inbox", "readers"}
"""What a queue has of its own: it belongs to no job, session, key or call."""
_numbers = itertools.count(1)
_HEAD = struct.Struct(">cBHB6s")


class RedisHarness(Harness):
    """A namespace of its own for each test, on a server that all tests share."""

    processes = True

    def __init__(self, url: str) -> None:
        self._url = url
        self.namespace = f"t{os.getpid()}n{next(_numbers)}"
        self.url = f"{url}?namespace={self.namespace}"
        self._keys = Keys(self.namespace)

    def make(self, clock: Clock | None = None) -> Store:
        return RedisStore(self.url, clock=clock)

    def keeping(self, events: int, clock: Clock) -> Store:
        return RedisStore(f"{self.url}&history={events}", clock=clock)

    async def leftovers(self, store: Store) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for queue in await self._queues(store):
            for name, (_, kind, _) in ENDINGS.items():
                if name in STAY:
                    continue
                if name == "lane":
                    found = len(await self._ask(store, queue, "HKEYS", self._keys.of(queue, "lanes")))
                else:
                    count = {"hash": "HLEN", "zset": "ZCARD", "set": "SCARD", "list": "LLEN"}[kind]
                    found = await self._ask(store, queue, count, self._keys.of(queue, name))
                if found:
                    counts[name] = counts.get(name, 0) + found
        return counts

    async def damage(self, store: Store, queue: str, id: str) -> None:
        run = await self._ask(store, queue, "HGET", self._keys.of(queue, "ids"), short(id))
        raw = await self._ask(store, queue, "HGET", self._keys.of(queue, "jobs"), run)
        letter, flags, *sizes = _HEAD.unpack_from(raw)
        at = _HEAD.size + (7 if flags & 1 else 0) + (2 if flags & 2 else 0)
        if flags & 4:
            at += 33 + raw[at + 32]
            at += 2 + int.from_bytes(raw[at : at + 2], "big")
        at += 4 if flags & 8 else 0
        size = int.from_bytes(raw[at : at + 4], "big") if flags & 16 else 0
        rest = msgspec.msgpack.decode(raw[at + 4 : at + 4 + size]) if size else {}
        bad = msgspec.msgpack.encode({**rest, "headers": "{no", "overrides": "{no", "error": "{no"})
        behind = raw[at + 4 + size :] if size else raw[at:]
        damaged = _HEAD.pack(letter, flags | 16, *sizes) + raw[_HEAD.size : at] + len(bad).to_bytes(4, "big") + bad
        await self._ask(store, queue, "HSET", self._keys.of(queue, "jobs"), run, damaged + behind)

    async def lose(self, store: Store, queue: str, id: str) -> None:
        run = await self._ask(store, queue, "HGET", self._keys.of(queue, "ids"), short(id))
        await self._ask(store, queue, "HDEL", self._keys.of(queue, "jobs"), run)

    async def reset_log(self, store: Store) -> None:
        for queue in await self._queues(store):
            await self._ask(store, queue, "DEL", self._keys.of(queue, "events"))
            await self._ask(store, queue, "HSET", self._keys.of(queue, "queue"), "epoch", "77")

    def fresh(self) -> Harness:
        return RedisHarness(self._url)

    async def ready_keys(self, store: Store, queue: str, now_ms: int) -> frozenset[str] | None:
        ready = await self._ask(store, queue, "ZRANGE", self._keys.of(queue, "ready"), 0, -1)
        due = await self._ask(store, queue, "ZRANGEBYSCORE", self._keys.of(queue, "timed"), "-inf", now_ms)
        return frozenset(key.decode() for key in [*ready, *due])

    async def dispose(self, store: Store) -> None:
        again = RedisStore(self.url)
        await again.open()
        for queue in await self._queues(again):
            lanes = await self._ask(again, queue, "HKEYS", self._keys.of(queue, "lanes"))
            keys = [self._keys.of(queue, "lane") + key.decode() for key in lanes]
            await self._ask(again, queue, "UNLINK", *keys, *(self._keys.of(queue, name) for name in ENDINGS))
        for name in ("queues", "store"):
            key = self._keys.of_store(name)
            await again._server.ask(["UNLINK", key], key)
        await again.close()

    async def _queues(self, store: Store) -> list[str]:
        assert isinstance(store, RedisStore)
        return await store._reader.names()

    async def _ask(self, store: Store, queue: str, *command: Any) -> Any:
        assert isinstance(store, RedisStore)
        return await store._server.ask(command, self._keys.declared(queue))


def valkey(folder: Path) -> Harness:
    """Return a place in Valkey."""
    binary = servers.valkey_binary()
    assert binary is not None
    return RedisHarness(servers.shared(binary).url)


def redis(folder: Path) -> Harness:
    """Return a place in Debian's Redis."""
    binary = servers.redis_binary()
    assert binary is not None
    return RedisHarness(servers.shared(binary).url)


def cluster(folder: Path) -> Harness:
    """Return a place in a cluster of three."""
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None
    return RedisHarness(servers.cluster(binary).url)


def available() -> dict[str, Any]:
    """Return the harnesses whose servers are installed here."""
    found: dict[str, Any] = {}
    if servers.valkey_binary():
        found["valkey"] = valkey
    if servers.redis_binary():
        found["redis"] = redis
    if found:
        found["cluster"] = cluster
    return found
