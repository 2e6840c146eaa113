"""What became of a write."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..store import Store
from ..store.contract import Answer
from .ledger import note, noted
from .runs import Span, merged, spans


class WriteReport(msgspec.Struct, kw_only=True):
    """What became of the rows of a named write.

    rows: how many were given. queued: new jobs. duplicate: rows whose id was there already, from an earlier try of the
    same write, say. finished: of the duplicates, those whose job was over by then. batch: the last batch of a stream.
    """

    name: str
    queue: str = ""
    rows: int = 0
    queued: int = 0
    duplicate: int = 0
    finished: int = 0
    batch: int | None = None
    query: str | None = None
    """The stream that wrote it, by the id that lies in its checkpoint."""
    open: list[Span] = []
    """The runs that were not over when they were written."""
    runs: list[Span] = []
    """The runs that are the write's own, and held for it."""

    def __str__(self) -> str:
        part = f", {self.finished} of them over" if self.finished else ""
        return f"write {self.name!r}: {self.rows} rows, {self.queued} queued, {self.duplicate} duplicate{part}"


class Tally:
    """Counts the answers of one Spark task."""

    def __init__(self, name: str, queue: str) -> None:
        self._report = WriteReport(name=name, queue=queue)
        self._prefix = f"{name}:"
        self._open: list[list[Span]] = []
        self._runs: list[list[Span]] = []

    def add(self, answers: list[Answer]) -> None:
        """These answers are counted."""
        report = self._report
        new = [answer.run for answer in answers if answer.status == "queued"]
        report.rows += len(answers)
        report.queued += len(new)
        found = spans(new)
        self._open.append(found)
        self._runs.append(found)
        if len(new) < len(answers):
            self._add_known([answer for answer in answers if answer.status != "queued"])

    def _add_known(self, answers: list[Answer]) -> None:
        open = [answer.run for answer in answers if not answer.state.finished]
        self._report.duplicate += len(answers)
        self._report.finished += len(answers) - len(open)
        self._open.append(spans(open))
        self._runs.append(spans(answer.run for answer in answers if answer.id.startswith(self._prefix)))

    def report(self) -> WriteReport:
        """Return what was counted."""
        self._report.open, self._report.runs = merged(self._open), merged(self._runs)
        return self._report


def summed(name: str, parts: Iterable[WriteReport]) -> WriteReport:
    """Return the report of a whole write by those of its Spark tasks."""
    whole = WriteReport(name=name)
    found = list(parts)
    for part in found:
        whole.queue, whole.query = part.queue, part.query
        whole.rows += part.rows
        whole.queued += part.queued
        whole.duplicate += part.duplicate
        whole.finished += part.finished
    whole.open = merged(part.open for part in found)
    whole.runs = merged(part.runs for part in found)
    return whole


def _id(name: str) -> str:
    return f"write:{name}"


async def keep_report(store: Store, report: WriteReport, *, keep_ms: int | None) -> None:
    """The report can be asked for."""
    await note(store, _id(report.name), report, keep_ms=keep_ms)


async def kept_report(store: Store, name: str) -> WriteReport | None:
    """Return the report of a write, if it was committed and is still kept."""
    found = await noted(store, _id(name))
    return None if found is None else msgspec.convert(found, WriteReport)
