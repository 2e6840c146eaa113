"""The lake's report, where there is a lake."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from ....errors import ConfigError, LakeError
from ...problem import Problem
from ...site import site_of
from .. import words
from ..draw.chart import Line, Plot, PlotAxis, curves, stacked
from ..shell import show

if TYPE_CHECKING:
    from pathlib import Path

    from ....spark.lake.report import LakeReport
    from ....spark.lake.report.change import FigureChange
    from ....spark.lake.report.panels import Panel

_COLOURS = {"good": "completed", "odd": "waiting", "bad": "failed", "calm": "scheduled", "dark": "blocked"}
"""The dashboard's colours for those of the report."""
Told = tuple[str, str, str]
"""A value, how it has changed since the period before, and whether that is better or worse."""


async def lake(request: Request) -> Response:
    """Show the report of the lake."""
    path = site_of(request).settings.lake
    text = request.query_params.get("days", "7")
    if not text.isdecimal() or len(text) > 5:
        raise Problem(400, "bad-request", f"days={text!r}: a number of days, or 0 for all")
    if path is None:
        return await show(request, "lake", "lake.html", report=None, error=None)
    queues = request.query_params.getlist("queue")
    try:
        report = await asyncio.to_thread(_read, path, int(text), queues)
    except (ConfigError, LakeError, ImportError) as error:
        return await show(request, "lake", "lake.html", report=None, error=str(error))
    return await show(request, "lake", "lake.html", report=report, error=None, chosen=int(text), **_values(report))


def _read(path: str | Path, days: int, queues: list[str]) -> LakeReport:
    from ....spark.lake.report import make_report  # reads with Arrow and Delta, and starts no Spark

    now = datetime.now(UTC)
    return make_report(path, now - timedelta(days=days), now, queues) if days else make_report(path, queues=queues)


def _values(report: LakeReport) -> dict[str, Any]:
    from ....spark.lake.report.form import when
    from ....spark.lake.report.panels import panels
    from ....spark.lake.report.summary import (
        comparison,
        covered,
        gap_warning,
        late_warning,
        no_comparison,
        read_up_to,
        tiles,
    )
    from ....spark.lake.report.tables import tables

    period = report.period
    return {
        "covered": f"{covered(report)}, {read_up_to(report)}",
        "tiles": [(tile.title, *_told(tile.value, tile.change, sentence=True)) for tile in tiles(report)],
        "charts": [_chart(panel) for panel in panels(report)],
        "from_text": when(period.since if period else None),
        "to_text": when(period.until if period else None),
        "warnings": [each for each in (gap_warning(report), late_warning(report), no_comparison(report)) if each],
        "compared": [(row.title, row.now, *_told(row.before, row.change, sentence=True)) for row in comparison(report)],
        "tables": [
            (
                table.title,
                table.note,
                [(column.title, not column.words) for column in table.columns],
                [[_told(column.text(row) or "", column.change(row)) for column in table.columns] for row in table.rows],
            )
            for table in tables(report)
        ],
    }


def _told(value: str, change: FigureChange | None, *, sentence: bool = False) -> Told:
    if change is None:
        return value, "", ""
    return value, change.sentence if sentence else change.words, change.tone


def _chart(panel: Panel) -> Plot:
    from ....spark.lake.report.form import percent, ratio
    from ....spark.lake.report.panels import highest
    from ....spark.lake.report.ticks import tick_label, value_ticks

    shows = {"count": words.count, "duration": words.duration, "share": percent, "number": ratio}
    lines = [Line(line.name, _COLOURS[line.colour], line.values) for line in panel.lines]
    ticks = value_ticks(highest(panel), panel.unit)
    axis = PlotAxis(ticks, [tick_label(value, ticks, panel.unit) for value in ticks])
    draw = stacked if panel.bars else curves
    return draw(panel.title, lines, "in the lake", shows[panel.unit], axis)
