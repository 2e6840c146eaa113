"""The lake: the event log as tables that any engine can read. See `docs/guide/lake.md`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ...distribution import require

require("the lake", "deltalake", extra="spark")

if TYPE_CHECKING:
    from .event_log import EventLog, LogNews, StoreLog
    from .lake import BatchResult, Lake, follow
    from .storage.location import LakeLocation

__all__ = ["BatchResult", "EventLog", "Lake", "LakeLocation", "LogNews", "StoreLog", "follow"]

_HOMES = {
    "BatchResult": "lake", "EventLog": "event_log", "Lake": "lake", "LakeLocation": "storage.location",
    "LogNews": "event_log", "StoreLog": "event_log", "follow": "lake",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: a report needs no PySpark."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
