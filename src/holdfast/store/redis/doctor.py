"""Whether a server is fit to keep jobs."""

from __future__ import annotations

from .server import Server


async def checks(server: Server) -> list[tuple[str, bool, str]]:
    """Return name, whether it is well, and a line for people, of each check."""
    info = (await server.ask(["INFO"], None)).decode("utf-8", "replace")
    lines = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    policy = lines.get("maxmemory_policy", "noeviction")
    evicts = policy != "noeviction" and lines.get("maxmemory", "0") != "0"
    name = f"Valkey {lines['valkey_version']}" if "valkey_version" in lines else f"Redis {lines.get('redis_version')}"
    aof = lines.get("aof_enabled") == "1"
    return [
        ("server", True, f"{name}, {lines.get('used_memory_human')} used"),
        (
            "eviction",
            not evicts,
            f"maxmemory-policy {policy}" + (": jobs may vanish; set noeviction" if evicts else ""),
        ),
        ("durability", aof, "the append-only file is on" if aof else "no append-only file: a restart loses jobs"),
    ]
