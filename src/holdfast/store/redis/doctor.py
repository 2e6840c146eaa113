"""Whether a server is fit to keep jobs."""

from __future__ import annotations

from ..contract import Finding
from .server import Server


async def findings(server: Server) -> list[Finding]:
    """Return what the server says of itself."""
    info = (await server.ask(["INFO"], None)).decode("utf-8", "replace")
    lines = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    name = f"Valkey {lines['valkey_version']}" if "valkey_version" in lines else f"Redis {lines.get('redis_version')}"
    return [Finding("server", "ok", f"{name}, {lines.get('used_memory_human')} used"), _eviction(lines), _file(lines)]


def _eviction(lines: dict[str, str]) -> Finding:
    policy = lines.get("maxmemory_policy", "noeviction")
    if policy == "noeviction" or lines.get("maxmemory", "0") == "0":
        return Finding("eviction", "ok", f"maxmemory-policy {policy}")
    return Finding("eviction", "problem", f"maxmemory-policy {policy}: jobs may vanish", "set it to noeviction")


def _file(lines: dict[str, str]) -> Finding:
    if lines.get("aof_enabled") == "1":
        return Finding("durability", "ok", "the append-only file is on")
    return Finding(
        "durability",
        "warning",
        "no append-only file: a crash or restart of the server loses every job and result since its last snapshot",
        "set appendonly yes, and appendfsync as docs/reference/redis.md says",
    )
