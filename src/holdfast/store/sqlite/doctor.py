"""Whether a database file is fit to keep jobs, and what was found wrong in it."""

from __future__ import annotations

import os
import sqlite3

from ..contract import Corrupt, Finding
from ..rows import miscounted, set_aside, suspected
from .database import Database
from .repair.count import miscounts, recount
from .url import SqliteAddress


class SqliteDoctor:
    """Examine the file and its rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def doctor(self) -> list[Finding]:
        """Return what is to be said of the store itself; unreadable rows are set aside, and wrong counts corrected."""
        database = self._database
        await database.repair()
        corrupt = await database.read(lambda tx: [Corrupt(**row) for row in tx.rows("unreadable", "all")])
        suspects = await database.read(lambda tx: [suspected(**row) for row in tx.rows("claim", "a_suspect")])
        of_file = await database.reader.ask(lambda connection, after: _findings(connection, database.address, corrupt))
        wrong = await database.write(recount) if await database.read(miscounts) else []
        return [*of_file, miscounted(wrong), *(suspects or [suspected(0, "", "", 0)])]


def _findings(connection: sqlite3.Connection, address: SqliteAddress, corrupt: list[Corrupt]) -> list[Finding]:
    check = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return [
        Finding("file", "ok", "in memory" if address.path is None else os.path.abspath(address.path)),
        Finding("integrity", "ok" if check == "ok" else "problem", check, "restore the file from a backup"),
        Finding(
            "journal",
            "ok" if mode in ("wal", "memory") else "problem",
            f"journal mode {mode}",
            "move the file to a local file system",
        ),
        _durability(address),
        Finding("sqlite", "ok", f"SQLite {sqlite3.sqlite_version}"),
        set_aside(corrupt),
    ]


def _durability(address: SqliteAddress) -> Finding:
    told = f"synchronous {address.synchronous}"
    if address.path is None or address.synchronous != "OFF":
        return Finding("durability", "ok", told)
    return Finding(
        "durability", "warning", f"{told}: a power cut may damage the file", "leave out synchronous=off in the URL"
    )
