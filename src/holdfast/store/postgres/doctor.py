"""Whether a server is fit to keep jobs."""

from __future__ import annotations

from typing import Any

from ..contract import Finding

LOOK = (
    "SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,"
    " current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,"
    " current_setting('synchronous_commit') AS synchronous_commit,"
    " (SELECT count(*) FROM pg_stat_activity) AS connections, current_setting('max_connections')::integer AS most"
)
SUSPECTS = (
    "SELECT s.count, j.queue, j.id, j.company FROM (SELECT count(*) AS count, min(run) AS run FROM holdfast.suspect) s"
    " JOIN holdfast.job j ON j.run = s.run"
)
LOSES = {
    "fsync": "a power cut or a crash of the machine may damage the whole database",
    "full_page_writes": "a crash of the machine may leave damaged pages",
    "synchronous_commit": "a crash loses what was answered in the last moments before it",
}


def findings(row: dict[str, Any]) -> list[Finding]:
    """Return what the answer to `LOOK` says."""
    full = row["connections"] >= row["most"]
    return [
        Finding(
            "server",
            "problem" if row["standby"] else "ok",
            f"PostgreSQL {row['version']}" + (", a replica: it cannot be written" if row["standby"] else ""),
            "connect to the primary",
        ),
        _durability(row),
        Finding(
            "connections",
            "problem" if full else "ok",
            f"{row['connections']} of {row['most']} in use",
            "lower pool= in the URLs, or raise max_connections",
        ),
    ]


def _durability(row: dict[str, Any]) -> Finding:
    off = [name for name in LOSES if row[name] == "off"]
    if not off:
        return Finding("durability", "ok", f"fsync is on, synchronous_commit is {row['synchronous_commit']}")
    told = "; ".join(f"{name} is off: {LOSES[name]}" for name in off)
    return Finding("durability", "problem", told, f"turn on {', '.join(off)} (ALTER SYSTEM, or where it was set)")
