"""Keeping a lake tidy: small files of days that are over become large ones, and what nobody needs is removed."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from deltalake.exceptions import CommitFailedError

from ...errors import LakeBusy
from .report import open_tables
from .table import Table


@dataclass(frozen=True)
class Tidied:
    """What became of one table."""

    table: str
    files_before: int
    files_after: int
    removed: int
    """Files that were deleted from the disk."""


def vacuum(path: Path, older_than: timedelta) -> list[Tidied]:
    """Every table has few files for each day that is over, and no file that was replaced longer ago than given."""
    try:
        return [_tidy(table, older_than) for table in open_tables(path).values()]
    except CommitFailedError as error:
        raise LakeBusy(f"{path}: a lake run was at work on the same files; try again") from error


def _tidy(table: Table, older_than: timedelta) -> Tidied:
    before = len(table.files())
    days = sorted({file.partition["day"] or "" for file in table.files() if "day" in file.partition} - {""})
    if not table.shape.partition:
        table.delta.optimize.compact()
    for day in days[:-1]:
        table.delta.optimize.compact(partition_filters=[("day", "=", day)])
    hours = math.ceil(older_than.total_seconds() / 3600)  # rather too little than what somebody still needs
    gone = table.delta.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True)
    _sweep(table.path, older_than)
    table.delta.create_checkpoint()
    table.delta.cleanup_metadata()
    table.refresh()
    return Tidied(table.shape.name, before, len(table.files()), len(gone))


def _sweep(folder: Path, older_than: timedelta) -> None:
    """Checksums whose file is gone, and old folders that are empty, are gone as well: delta-rs knows neither."""
    for checksum in folder.rglob(".*.crc"):
        if not checksum.with_name(checksum.name[1 : -len(".crc")]).exists():
            checksum.unlink(missing_ok=True)
    limit = time.time() - older_than.total_seconds()
    for inner in sorted(folder.glob("b*/**/"), reverse=True):
        if inner.stat().st_mtime <= limit and not any(inner.iterdir()):
            inner.rmdir()
