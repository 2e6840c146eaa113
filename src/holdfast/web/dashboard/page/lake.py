"""The lake's report, where there is a lake."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from ....errors import ConfigError, LakeError
from ...problem import Problem
from ...site import site_of
from .. import words
from ..draw.chart import Line, Plot, curves, stacked
from ..shell import show

if TYPE_CHECKING:
    from pathlib import Path

    from ....spark.lake.report import LakeReport


async def lake(request: Request) -> Response:
    """Show the report of the lake."""
    path = site_of(request).settings.lake
    text = request.query_params.get("days", "7")
    if not text.isdecimal() or len(text) > 5:
        raise Problem(400, "bad-request", f"days={text!r}: a number of days, or 0 for all")
    if path is None:
        return await show(request, "lake", "lake.html", report=None, error=None)
    try:
        report = await asyncio.to_thread(_read, path, int(text))
    except (ConfigError, LakeError, ImportError) as error:
        return await show(request, "lake", "lake.html", report=None, error=str(error))
    return await show(request, "lake", "lake.html", report=report, error=None, chosen=int(text), **_values(report))


def _read(path: str | Path, days: int) -> LakeReport:
    from ....spark.lake.report import make_report  # reads with Arrow and Delta, and starts no Spark

    return make_report(path, datetime.now(UTC) - timedelta(days=days) if days else None)


def _values(report: LakeReport) -> dict[str, Any]:
    from ....spark.lake.report.columns import BACKLOG, ERRORS, QUEUES, TENANTS, WORKERS, when

    tables = [
        ("Queues", QUEUES, report.queues), ("Open as of the last batch", BACKLOG, report.backlog),
        ("Errors", ERRORS, report.errors), ("Tenants, by attempts started", TENANTS, report.tenants),
        ("Workers", WORKERS, report.workers),
    ]  # fmt: skip
    return {
        "covered": f"{when(report.first)} to {when(report.last)} UTC, read up to {when(report.read_at)}"
        if report.first
        else "nothing has happened in this time",
        "tiles": _tiles(report),
        "charts": _charts(report),
        "from_text": when(report.first),
        "to_text": when(report.last),
        "gaps": _gaps(report),
        "tables": [
            (title, [name for name, _ in columns], [[value(row) or "" for _, value in columns] for row in rows])
            for title, columns, rows in tables
        ],
    }


def _tiles(report: LakeReport) -> list[tuple[str, str]]:
    def total(name: str) -> int:
        return sum(row[name] or 0 for row in report.queues)

    return [
        ("completed", words.count(total("completed"))),
        ("failed for good", words.count(total("failed"))),
        ("retried", words.count(total("retried"))),
        ("stalled", words.count(total("stalled"))),
        ("still open", words.count(sum(row["jobs"] for row in report.backlog))),
    ]


def _gaps(report: LakeReport) -> str:
    if not report.gaps:
        return ""
    missing = sum(row["missing"] or 0 for row in report.gaps)
    return f"This history has gaps: {missing:,} events were trimmed before they were read, or the log was reset."


def _charts(report: LakeReport) -> list[Plot]:
    if report.first is None or not report.series:
        return []
    times = [row["at"] for row in report.series]
    first, count = min(times), round((max(times) - min(times)) / report.step) + 1
    made: list[Plot] = []
    for row in report.queues:
        mine = [each for each in report.series if each["queue"] == row["queue"]]

        def values(name: str, mine: Sequence[dict[str, Any]] = mine) -> list[float | None]:
            found: list[float | None] = [None] * count
            for each in mine:
                found[round((each["at"] - first) / report.step)] = each[name]
            return found

        bars = [
            Line("completed", "completed", values("completed")),
            Line("retried", "waiting", values("retried")),
            Line("failed", "failed", values("failed")),
        ]
        made.append(stacked(f"{row['queue']}: jobs", bars, "in the lake"))
        lines = [
            Line("wait p50", "scheduled", values("wait_p50_ms")),
            Line("wait p90", "blocked", values("wait_p90_ms")),
        ]
        made.append(curves(f"{row['queue']}: waits", lines, "in the lake", words.duration))
    return made
