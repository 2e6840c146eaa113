"""Whether a server, or every node of a cluster, is fit to keep jobs; and what was set aside."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..contract import Corrupt, Finding
from ..rows import set_aside, suspected
from .caller import RedisCaller
from .connection.address import RedisAddress
from .connection.mistyped import MistypedKeys
from .record.job import UNREADABLE, parse_or_none

Lines = dict[str, str]


class RedisDoctor:
    """Examines the servers and the records of one namespace."""

    def __init__(self, caller: RedisCaller, mistyped: MistypedKeys) -> None:
        self._caller = caller
        self._mistyped = mistyped

    async def doctor(self) -> list[Finding]:
        """Return what is well and what is not."""
        for name in await self._caller.names():
            await self._mistyped.set_aside(name)
        corrupt = [each for name in await self._caller.names() for each in await self._corrupt(name)]
        return [*await self._servers(), set_aside(corrupt), await self._suspects()]

    async def _servers(self) -> list[Finding]:
        """Return what the server says of itself; of a cluster's nodes, the first that is not well."""
        server = self._caller.server
        texts = [info.decode("utf-8", "replace") for info in await server.ask_everywhere(["INFO"])]
        nodes = [dict(line.split(":", 1) for line in text.splitlines() if ":" in line) for text in texts]
        address = server.address
        found = [_server(nodes), _first(nodes, _eviction), _first(nodes, lambda lines: _file(lines, address))]
        return found + ([_first(nodes, lambda lines: _replicas(lines, address))] if address.wait_replicas else [])

    async def _corrupt(self, queue: str) -> list[Corrupt]:
        """Return what of a queue was set aside, the newest first."""
        key = self._caller.keys.of(queue, "aside")
        return [corrupt_of(queue, text) for text in await self._caller.server.ask(["LRANGE", key, 0, -1], key)]

    async def _suspects(self) -> Finding:
        """Return what is to be said of jobs that stalled in company and wait for smaller company."""
        server, keys = self._caller.server, self._caller.keys
        total, example = 0, ("", "", 0)
        for name in await self._caller.names():
            key = keys.of(name, "suspects")
            count, first = await server.ask_all([["ZCARD", key], ["ZRANGE", key, 0, 0]], key)
            total += count
            for member in first if not example[0] else ():
                raw = await server.ask(["HGET", keys.of(name, "jobs"), member[-6:]], key)
                parsed = parse_or_none(raw)
                example = (name, parsed.id if parsed else "?", (parsed.rest.company if parsed else None) or 1)
        return suspected(total, *example)


def corrupt_of(queue: str, text: bytes) -> Corrupt:
    """Return what is said of a record that was set aside."""
    try:
        return msgspec.convert({"queue": queue, **msgspec.json.decode(text)}, Corrupt)
    except UNREADABLE:
        return Corrupt(kind="note", queue=queue, id="", detail="what was said of a record cannot be read either")


def _first(nodes: list[Lines], examine: Callable[[Lines], Finding]) -> Finding:
    found = [examine(lines) for lines in nodes]
    return next((each for each in found if each.verdict != "ok"), found[0])


def _server(nodes: list[Lines]) -> Finding:
    lines = nodes[0]
    name = f"Valkey {lines['valkey_version']}" if "valkey_version" in lines else f"Redis {lines.get('redis_version')}"
    used = " + ".join(str(each.get("used_memory_human")) for each in nodes)
    return Finding("server", "ok", f"{name}, {used} used")


def _eviction(lines: Lines) -> Finding:
    policy = lines.get("maxmemory_policy", "noeviction")
    if policy == "noeviction" or lines.get("maxmemory", "0") == "0":
        return Finding("eviction", "ok", f"maxmemory-policy {policy}")
    return Finding("eviction", "problem", f"maxmemory-policy {policy}: jobs may vanish", "set it to noeviction")


def _file(lines: Lines, address: RedisAddress) -> Finding:
    if lines.get("aof_enabled") == "1":
        return Finding("durability", "ok", "the append-only file is on")
    advice = "set appendonly yes, and appendfsync as docs/reference/redis.md says"
    if address.wait_aof:
        told = "wait_aof=1, and no append-only file: each enqueue raises"
        return Finding("durability", "problem", told, f"{advice}; or leave wait_aof out")
    told = "no append-only file: a crash or restart of the server loses every job and result since its last snapshot"
    return Finding("durability", "warning", told, advice)


def _replicas(lines: Lines, address: RedisAddress) -> Finding:
    there = int(lines.get("connected_slaves", 0))
    told = f"wait_replicas={address.wait_replicas}, and {there} are connected"
    if there >= address.wait_replicas:
        return Finding("replicas", "ok", told)
    return Finding("replicas", "problem", f"{told}: each enqueue raises", "add replicas, or wait for fewer")
