"""The lake: the event log as tables that any engine can read. See `docs/guide/lake.md`."""

from __future__ import annotations

from ...distribution import require

require("the lake", "deltalake", extra="spark")

from .event_log import EventLog, LogNews, StoreLog  # noqa: E402
from .lake import BatchResult, Lake, follow  # noqa: E402
from .storage.location import LakeLocation  # noqa: E402

__all__ = ["BatchResult", "EventLog", "Lake", "LakeLocation", "LogNews", "StoreLog", "follow"]
