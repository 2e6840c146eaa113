"""Opening a lake: whether a place is one, or may become one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...errors import ConfigError
from .delta_table import LakeTable
from .schemas import BATCHES, LAKE_TABLES
from .storage.location import LakeLocation
from .storage.storage_errors import plain_storage_errors


def require_lake(location: LakeLocation) -> None:
    """Raise when something else than a lake lies here. Nothing is as good as a lake: it becomes one."""
    if location.is_local and Path(location.uri).is_file():
        raise ConfigError(f"the lake {location}: a file is in the way: name a folder of its own for the lake")
    with plain_storage_errors(location):
        found = location.names()
    if found and BATCHES.name not in found:
        raise ConfigError(
            f"{location} is no lake, and not empty: it has {min(found)!r}; "
            "give the lake a folder of its own with --path"
        )


def open_tables(
    path: str | Path | LakeLocation,
    storage_options: Mapping[str, str] | None = None,
    *,
    read_only: bool = False,
) -> dict[str, LakeTable]:
    """Return the tables of an existing lake; with `read_only`, for one who may not or need not write to them."""
    location = LakeLocation.of(path, storage_options)
    with plain_storage_errors(location):
        is_lake = "_delta_log" in (location / BATCHES.name).names()
    if not is_lake:
        raise ConfigError(f"{location} is no lake: name its folder with --path, or make one with holdfast lake run")
    return {schema.name: LakeTable(location, schema, read_only=read_only) for schema in LAKE_TABLES}
