"""The lake: the event log as tables that any engine can read. See `docs/guide/lake.md`."""

from __future__ import annotations

from .lake import Done, Lake, follow

__all__ = ["Done", "Lake", "follow"]
