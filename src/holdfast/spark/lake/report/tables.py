"""The tables of a report, in the order in which they are shown, with a sentence on what their figures mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .columns import BACKLOG, ERRORS, FAIRNESS, QUEUES, RETRIES, TENANTS, WORKERS, ReportColumn
from .queries import Row
from .report import LakeReport

MOST = 20
"""The most rows of a table: a report is read by people. `--json` has all queues and workers."""


@dataclass(frozen=True)
class ReportTable:
    """A title, columns and rows, and what has to be said about them."""

    title: str
    columns: Sequence[ReportColumn]
    rows: Sequence[Row]
    note: str = ""


def tables(report: LakeReport) -> list[ReportTable]:
    """Return the tables that have rows."""
    found = [
        ReportTable(
            "Queues", QUEUES, report.queues, "Went wrong: attempts that raised, timed out or lost their worker."
        ),
        ReportTable(
            "What went wrong has cost", RETRIES, report.retries,
            "Time lost: the run time of attempts that went wrong, which others had to do again, or nobody did.",
        ),
        ReportTable("Errors", ERRORS, report.errors),
        ReportTable(
            "Tenants", TENANTS, report.tenants, "A tenant is a concurrency key; shares are of its queue's starts."
        ),
        ReportTable(
            "Fairness", FAIRNESS, report.fairness,
            "Jain's index: 1 when all tenants have the same, 1/tenants when one has it all.",
        ),
        ReportTable(
            "Workers", WORKERS, report.workers,
            "Utilisation: time run, of the most slots that it used at once, from its first attempt to its last.",
        ),
        ReportTable("Open as of the last batch", BACKLOG, report.backlog),
    ]  # fmt: skip
    return [_cut(table) for table in found if table.rows]


def _cut(table: ReportTable) -> ReportTable:
    total = table.rows[0].get("all_rows", len(table.rows))
    shown = table.rows[:MOST]
    left = f"{total - len(shown):,} more are not shown." if total > len(shown) else ""
    return ReportTable(table.title, table.columns, shown, " ".join(filter(None, (table.note, left))))
