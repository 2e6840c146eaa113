"""The lake: the event log as tables that any engine can read. See `docs/guide/lake.md`."""

from __future__ import annotations

from ...distribution import require

require("the lake", "deltalake", extra="spark")

from .lake import BatchResult, Lake, follow, lake_folder  # noqa: E402

__all__ = ["BatchResult", "Lake", "follow", "lake_folder"]
