"""Compact the small files of past days into large ones, and remove files that are no longer needed."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from deltalake.exceptions import CommitFailedError

from ...errors import LakeBusy
from .delta_table import LakeTable
from .opening import open_tables
from .storage.location import LakeLocation
from .storage.storage_errors import plain_storage_errors

UNKNOWN_HOURS = 24
"""Files that no table knows are kept at least so long: a lake run may have written them, to commit them next."""


@dataclass(frozen=True)
class VacuumResult:
    """What a vacuum did to one table."""

    table: str
    files_before: int
    files_after: int
    removed: int
    """Files that were deleted from the disk."""


def vacuum(path: str | Path | LakeLocation, older_than: timedelta) -> list[VacuumResult]:
    """Compact every table, and remove files that were replaced longer ago than `older_than`."""
    try:
        with plain_storage_errors(LakeLocation.of(path)):
            return [_tidy(table, older_than) for table in open_tables(path).values()]
    except CommitFailedError as error:
        raise LakeBusy(f"{path}: a lake run was at work on the same files; try again") from error


def _tidy(table: LakeTable, older_than: timedelta) -> VacuumResult:
    before = len(table.files())
    days = sorted({file.partition["day"] or "" for file in table.files() if "day" in file.partition} - {""})
    if not table.schema.partition:
        table.delta.optimize.compact()
    for day in days[:-1]:
        table.delta.optimize.compact(partition_filters=[("day", "=", day)])
    hours = math.ceil(older_than / timedelta(hours=1))  # rounded up, so that no file goes too early
    gone = _removed(table, hours, full=False) + _removed(table, max(hours, UNKNOWN_HOURS), full=True)
    if table.location.is_local:
        _sweep(Path(table.location.uri), max(older_than, timedelta(hours=UNKNOWN_HOURS)))
    table.delta.create_checkpoint()
    table.delta.cleanup_metadata()
    table.refresh()
    return VacuumResult(table.schema.name, before, len(table.files()), gone)


def _removed(table: LakeTable, hours: int, *, full: bool) -> int:
    """Delete files that were replaced so long ago, with `full` also those of no table; return how many."""
    options = {"dry_run": False, "enforce_retention_duration": False, "full": full}
    return len(table.delta.vacuum(retention_hours=hours, **options))


def _sweep(folder: Path, older_than: timedelta) -> None:
    """Remove checksums without a file and empty folders of old batches, which delta-rs leaves behind."""
    limit = time.time() - older_than.total_seconds()
    for batch in folder.glob("b*"):
        with suppress(FileNotFoundError):  # another process has just removed it
            if batch.stat().st_mtime <= limit:
                _clear(batch)


def _clear(batch: Path) -> None:
    for checksum in batch.rglob(".*.crc"):
        if not checksum.with_name(checksum.name[1 : -len(".crc")]).exists():
            checksum.unlink(missing_ok=True)
    for inner in sorted(batch.glob("**/"), reverse=True):
        if not any(inner.iterdir()):
            inner.rmdir()
