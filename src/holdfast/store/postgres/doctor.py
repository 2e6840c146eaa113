"""Whether a server is fit to keep jobs, and whether what it keeps can be read."""

from __future__ import annotations

from ..contract import Corrupt, Finding
from ..rows import Miscount, Row, miscounted, set_aside, suspected
from .connection.caller import PostgresCaller

SERVER = (
    "SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,"
    " current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,"
    " current_setting('synchronous_commit') AS synchronous_commit,"
    " (SELECT count(*) FROM pg_stat_activity) AS connections, current_setting('max_connections')::integer AS most"
)
SUSPECTS = (
    "SELECT s.count, j.queue, j.id, j.company FROM (SELECT count(*) AS count, min(run) AS run FROM holdfast.suspect) s"
    " JOIN holdfast.job j ON j.run = s.run"
)
CORRUPT = "SELECT kind, queue, id, run, detail FROM holdfast.corrupt ORDER BY number DESC"
LOSES = {
    "fsync": "a power cut or a crash of the machine may damage the whole database",
    "full_page_writes": "a crash of the machine may leave damaged pages",
    "synchronous_commit": "a crash loses what was answered in the last moments before it",
}


class PostgresDoctor:
    """Examines the server, and what the store keeps there."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller

    async def doctor(self) -> list[Finding]:
        """Return what was found, good and bad; set aside what cannot be read, and count again."""
        await self._caller.value("set_corrupt_aside", log=True)
        corrupt = [Corrupt(**row) for row in await self._rows(CORRUPT)]
        suspects = [suspected(**row) for row in await self._rows(SUSPECTS)]
        (row,) = await self._rows(SERVER)
        counts = miscounted(await recount(self._caller))
        return [*findings(row), set_aside(corrupt), counts, *(suspects or [suspected(0, "", "", 0)])]

    async def _rows(self, statement: str) -> list[Row]:
        return await self._caller.rows(self._caller.named(statement), (), named=True)


async def recount(caller: PostgresCaller) -> list[Miscount]:
    """Make the counts of all queues what is there; return those that were not."""
    return [Miscount(**row) for row in await caller.call("recount")]


def findings(row: Row) -> list[Finding]:
    """Return what the answer to `SERVER` says."""
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


def _durability(row: Row) -> Finding:
    off = [name for name in LOSES if row[name] == "off"]
    if not off:
        return Finding("durability", "ok", f"fsync is on, synchronous_commit is {row['synchronous_commit']}")
    told = "; ".join(f"{name} is off: {LOSES[name]}" for name in off)
    return Finding("durability", "problem", told, f"turn on {', '.join(off)} (ALTER SYSTEM, or where it was set)")
