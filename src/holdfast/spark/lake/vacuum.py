"""Keeping a lake tidy: small files of days that are over become large ones, and what nobody needs is removed."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from deltalake.exceptions import CommitFailedError

from ...errors import LakeBusy
from .report import open_tables
from .table import Table

UNKNOWN_HOURS = 24
"""Files that no table knows of stay for so long at least: a run at work may have written them, to commit them next."""


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
    hours = math.ceil(older_than / timedelta(hours=1))  # rather too little than what somebody still needs
    gone = _removed(table, hours, full=False) + _removed(table, max(hours, UNKNOWN_HOURS), full=True)
    _sweep(table.path, max(older_than, timedelta(hours=UNKNOWN_HOURS)))
    table.delta.create_checkpoint()
    table.delta.cleanup_metadata()
    table.refresh()
    return Tidied(table.shape.name, before, len(table.files()), gone)


def _removed(table: Table, hours: int, *, full: bool) -> int:
    """Return how many files were deleted: those replaced so long ago; in full, those of no table, too."""
    options = {"dry_run": False, "enforce_retention_duration": False, "full": full}
    return len(table.delta.vacuum(retention_hours=hours, **options))


def _sweep(folder: Path, older_than: timedelta) -> None:
    """In old batches, checksums whose file is gone and folders that are empty are gone, too: delta-rs knows neither."""
    limit = time.time() - older_than.total_seconds()
    for batch in folder.glob("b*"):
        with suppress(FileNotFoundError):  # somebody else has dropped it just now
            if batch.stat().st_mtime <= limit:
                _clear(batch)


def _clear(batch: Path) -> None:
    for checksum in batch.rglob(".*.crc"):
        if not checksum.with_name(checksum.name[1 : -len(".crc")]).exists():
            checksum.unlink(missing_ok=True)
    for inner in sorted(batch.glob("**/"), reverse=True):
        if not any(inner.iterdir()):
            inner.rmdir()
