"""Redis, Valkey and a cluster, as the contract suite needs them."""

from __future__ import annotations

import itertools
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.store import Store
from holdfast.store.redis import RedisStore
from holdfast.store.redis.keys import ENDINGS, Keys, short
from holdfast.testing.contract import Clock, Harness

sys.path.insert(0, str(Path(__file__).parent.parent))
import servers

GARBAGE = {
    "empty": b"", "a byte": b"\xc1", "text": b"rubbish", "bytes": b"\xff\x00\xfe" * 9, "a list": b"\x93\x01\x02\x03",
    "a map": b"\x81\xa1a\x01", "json": b'{"a": 1}', "half": b"{\"a\": ", "a number": b"-1", "too large": b"9" * 40,
}  # fmt: skip
PLACES = {
    "successor": ("successors",), "policy": ("policies", "declared"), "adjustment": ("adjusted",), "lane": ("lanes",),
    "key_limit": ("limits", "running"), "session": ("sessions",), "watch": ("watchers",), "blocker": ("blockers",),
    "schedule": ("schedules",), "request": ("requests",), "job": ("jobs",),
}  # fmt: skip
"""Which hashes of a queue hold records of each kind."""
SETTINGS = (
    "settings",
    "declared",
    "operator",
    "turn",
    "keyless_turn",
    "tokens",
    "tokens_at",
    "shift",
    "revision",
    "version",
)
STAY = {
    "mistyped",
    "aside",
    "untold",
    "corrupt",
    "schedules",
    "ticks",
    "queue",
    "policies",
    "declared",
    "adjusted",
    "limits",
    "events",
    "inbox",
    "readers",
}
"""What a queue has of its own: it belongs to no job, session, key or call."""
_numbers = itertools.count(1)
_HEAD = struct.Struct(">cBHB6sI")


class RedisHarness(Harness):
    """A namespace of its own for each test, on a server that all tests share."""

    processes = True

    def __init__(self, url: str) -> None:
        self._url = url
        self.namespace = f"t{os.getpid()}-n{next(_numbers)}"
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
        bad = msgspec.msgpack.encode({**rest, "envelope": "{no", "overrides": "{no", "error": "{no"})
        behind = raw[at + 4 + size :] if size else raw[at:]
        damaged = _HEAD.pack(letter, flags | 16, *sizes) + raw[_HEAD.size : at] + len(bad).to_bytes(4, "big") + bad
        await self._ask(store, queue, "HSET", self._keys.of(queue, "jobs"), run, damaged + behind)

    async def lose(self, store: Store, queue: str, id: str) -> None:
        run = await self._ask(store, queue, "HGET", self._keys.of(queue, "ids"), short(id))
        await self._ask(store, queue, "HDEL", self._keys.of(queue, "jobs"), run)

    def ways(self, kind: str) -> Sequence[str]:
        if kind == "job":
            cuts = [f"cut to {size}" for size in (1, 5, 10, 14, 16, 20, 24, 28)]
            return [*(f"jobs: {each}" for each in GARBAGE), *cuts, "cut by 1", "one more", "no text", "no state"]
        if kind == "queue":
            return [f"{field}: {each}" for field in SETTINGS for each in GARBAGE]
        if kind == "event":
            return [f"events: {each}" for each in GARBAGE]
        if kind == "message":
            return [f"outbox: {each}" for each in GARBAGE]
        if kind == "abort":
            return [f"aborts: {each}" for each in GARBAGE]
        return [f"{name}: {each}" for name in PLACES.get(kind, ()) for each in GARBAGE]

    async def spoil(self, store: Store, kind: str, way: str, queue: str, id: str) -> None:
        name, _, garbage = way.partition(": ")
        if kind == "job":
            run = await self._ask(store, queue, "HGET", self._keys.of(queue, "ids"), short(id))
            raw = await self._ask(store, queue, "HGET", self._keys.of(queue, "jobs"), run)
            await self._ask(
                store, queue, "HSET", self._keys.of(queue, "jobs"), run, _spoilt(way, raw, GARBAGE.get(garbage))
            )
        elif kind == "queue":
            await self._ask(store, queue, "HSET", self._keys.of(queue, "queue"), name, GARBAGE[garbage])
        elif kind == "event":
            epoch = await self._ask(store, queue, "HGET", self._keys.of(queue, "queue"), "epoch")
            at = epoch.decode() + "-*"
            await self._ask(store, queue, "XADD", self._keys.of(queue, "events"), at, "i", "x", "e", GARBAGE[garbage])
        elif kind == "message":
            await self._ask(store, queue, "ZADD", self._keys.of(queue, "outbox"), 1, GARBAGE[garbage])
        elif kind == "abort":
            await self._ask(store, queue, "HSET", self._keys.of(queue, "aborts"), "1/1", GARBAGE[garbage])
        else:
            key = self._keys.of(queue, name)
            for field in await self._ask(store, queue, "HKEYS", key) or [b"t" if name == "adjusted" else b"o1"]:
                await self._ask(store, queue, "HSET", key, field, GARBAGE[garbage])

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
            await again.server.ask(["UNLINK", key], key)
        await again.close()

    async def _queues(self, store: Store) -> list[str]:
        assert isinstance(store, RedisStore)
        return await store.caller.names()

    async def _ask(self, store: Store, queue: str, *command: Any) -> Any:
        assert isinstance(store, RedisStore)
        return await store.server.ask(command, self._keys.declared(queue))


def _spoilt(way: str, raw: bytes, garbage: bytes | None) -> bytes:
    if garbage is not None:
        return garbage
    if way == "one more":
        return raw + b"x"
    if way == "no state":
        return b"?" + raw[1:]
    if way == "no text":
        return raw.replace(b"bad", b"b\xffd").replace(b"\xa1a", b"\xa1\xff")
    size = int(way.rpartition(" ")[2])
    return raw[:-size] if "by" in way else raw[:size]


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
