"""Whether a file is fit to keep jobs."""

from __future__ import annotations

import sqlite3

from ..contract import Corrupt, Finding
from ..row import set_aside
from .connection import Place


def findings(connection: sqlite3.Connection, place: Place, corrupt: list[Corrupt]) -> list[Finding]:
    """Return what the file says of itself."""
    check = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return [
        Finding("integrity", "ok" if check == "ok" else "problem", check, "restore the file from a backup"),
        Finding(
            "journal",
            "ok" if mode in ("wal", "memory") else "problem",
            f"journal mode {mode}",
            "move the file to a local file system",
        ),
        _durability(place),
        Finding("sqlite", "ok", f"SQLite {sqlite3.sqlite_version}"),
        set_aside(corrupt),
    ]


def _durability(place: Place) -> Finding:
    told = f"synchronous {place.synchronous}"
    if place.path is None or place.synchronous != "OFF":
        return Finding("durability", "ok", told)
    return Finding(
        "durability", "warning", f"{told}: a power cut may damage the file", "leave out synchronous=off in the URL"
    )
