"""The report of a write: what became of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import msgspec

from ...store import Store
from ...store.contract import Answer
from ..records import read_record, write_record
from .run_ranges import RunRange, merge_ranges, run_ranges

_LARGEST = 2**61 - 1


class WriteReport(msgspec.Struct, kw_only=True):
    """What became of the rows of a named write.

    rows: how many were given. queued: new jobs. duplicate: rows whose id was there already, from an earlier try of the
    same write, say. finished: of the duplicates, those whose job was finished by then. batch: the last of a stream.
    """

    name: str
    queue: str = ""
    rows: int = 0
    queued: int = 0
    duplicate: int = 0
    finished: int = 0
    batch: int | None = None
    query: str | None = None
    """The stream that wrote it, by the id in its checkpoint."""
    checksum: int = 0
    """Of a stream: the sum over the ids of its last batch, by which the same batch is known."""
    open: list[RunRange] = []
    """The runs that were not finished when they were written."""
    runs: list[RunRange] = []
    """The write's own runs, which are held for it."""

    def __str__(self) -> str:
        part = f", {self.finished} of them over" if self.finished else ""
        return f"write {self.name!r}: {self.rows} rows, {self.queued} queued, {self.duplicate} duplicate{part}"


def checksum(ids: Iterable[str]) -> int:
    """Return a number that is the same for the same ids in whatever order, and zero for none."""
    return sum_checksums(crc32(id.encode()) + 1 for id in ids)


def sum_checksums(parts: Iterable[int]) -> int:
    """Return the checksum of several parts together."""
    return sum(parts) % _LARGEST


class Tally:
    """Count the answers that one Spark task gets from the store."""

    def __init__(self, name: str, queue: str, *, with_checksum: bool = False) -> None:
        self._report = WriteReport(name=name, queue=queue)
        self._with_checksum = with_checksum
        self._prefix = f"{name}:"
        self._open: list[list[RunRange]] = []
        self._runs: list[list[RunRange]] = []

    def add(self, answers: list[Answer]) -> None:
        """Count these answers."""
        report = self._report
        new = [answer.run for answer in answers if answer.status == "queued"]
        report.rows += len(answers)
        if self._with_checksum:
            report.checksum = sum_checksums([report.checksum, checksum(answer.id for answer in answers)])
        report.queued += len(new)
        found = run_ranges(new)
        self._open.append(found)
        self._runs.append(found)
        if len(new) < len(answers):
            self._add_known([answer for answer in answers if answer.status != "queued"])

    def _add_known(self, answers: list[Answer]) -> None:
        open = [answer.run for answer in answers if not answer.state.finished]
        self._report.duplicate += len(answers)
        self._report.finished += len(answers) - len(open)
        self._open.append(run_ranges(open))
        self._runs.append(run_ranges(answer.run for answer in answers if answer.id.startswith(self._prefix)))

    def report(self) -> WriteReport:
        """Return the counts as a report."""
        self._report.open, self._report.runs = merge_ranges(self._open), merge_ranges(self._runs)
        return self._report


def sum_reports(name: str, parts: Iterable[WriteReport]) -> WriteReport:
    """Return the report of a whole write, the sum of those of its Spark tasks."""
    whole = WriteReport(name=name)
    found = list(parts)
    for part in found:
        whole.queue, whole.query = part.queue, part.query
        whole.rows += part.rows
        whole.queued += part.queued
        whole.duplicate += part.duplicate
        whole.finished += part.finished
        whole.checksum = sum_checksums([whole.checksum, part.checksum])
    whole.open = merge_ranges(part.open for part in found)
    whole.runs = merge_ranges(part.runs for part in found)
    return whole


def _id(name: str) -> str:
    return f"write:{name}"


async def keep_report(store: Store, report: WriteReport, *, keep_ms: int | None) -> None:
    """Keep a report in the store, where any process can read it."""
    await write_record(store, _id(report.name), report, keep_ms=keep_ms)


async def find_report(store: Store, name: str) -> WriteReport | None:
    """Return the report of a write, `None` when it was not committed or is no longer kept."""
    found = await read_record(store, _id(name))
    return None if found is None else msgspec.json.decode(found, type=WriteReport)
