"""The embedded store: one SQLite file, many processes; and `memory://`, the same code in memory."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
