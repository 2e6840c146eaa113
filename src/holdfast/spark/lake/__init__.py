"""The lake: the event log as tables that any engine can read. See `docs/guide/lake.md`."""

from __future__ import annotations

from ...errors import MissingExtra

try:
    import deltalake  # noqa: F401
except ImportError as error:
    raise MissingExtra("the lake needs deltalake, which is missing: pip install 'holdfast[spark]'") from error

from .lake import BatchResult, Lake, follow, lake_folder

__all__ = ["BatchResult", "Lake", "follow", "lake_folder"]
