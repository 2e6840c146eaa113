"""Whether a server, or every node of a cluster, is fit to keep jobs."""

from __future__ import annotations

from collections.abc import Callable

from ..contract import Finding
from .place import Place
from .server import Server

Lines = dict[str, str]


async def findings(server: Server) -> list[Finding]:
    """Return what the server says of itself; of a cluster's nodes, the first that is not well."""
    texts = [info.decode("utf-8", "replace") for info in await server.ask_everywhere(["INFO"])]
    nodes = [dict(line.split(":", 1) for line in text.splitlines() if ":" in line) for text in texts]
    place = server.place
    found = [_server(nodes), _first(nodes, _eviction), _first(nodes, lambda lines: _file(lines, place))]
    return found + ([_first(nodes, lambda lines: _replicas(lines, place))] if place.wait_replicas else [])


def _first(nodes: list[Lines], look: Callable[[Lines], Finding]) -> Finding:
    found = [look(lines) for lines in nodes]
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


def _file(lines: Lines, place: Place) -> Finding:
    if lines.get("aof_enabled") == "1":
        return Finding("durability", "ok", "the append-only file is on")
    advice = "set appendonly yes, and appendfsync as docs/reference/redis.md says"
    if place.wait_aof:
        told = "wait_aof=1, and no append-only file: each enqueue raises"
        return Finding("durability", "problem", told, f"{advice}; or leave wait_aof out")
    told = "no append-only file: a crash or restart of the server loses every job and result since its last snapshot"
    return Finding("durability", "warning", told, advice)


def _replicas(lines: Lines, place: Place) -> Finding:
    there = int(lines.get("connected_slaves", 0))
    told = f"wait_replicas={place.wait_replicas}, and {there} are connected"
    if there >= place.wait_replicas:
        return Finding("replicas", "ok", told)
    return Finding("replicas", "problem", f"{told}: each enqueue raises", "add replicas, or wait for fewer")
