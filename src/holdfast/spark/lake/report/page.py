"""A report as one HTML page, to read or print: nothing to load, no scripts, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from .change import FigureChange
from .chart import draw
from .columns import ReportColumn
from .form import escaped
from .panels import panels
from .queries import Row
from .report import LakeReport
from .summary import comparison, covered, gap_warning, late_warning, no_comparison, read_up_to, tiles
from .tables import ReportTable, tables

SHORT = 10
"""A table of so many rows is printed on one sheet."""


def html_page(report: LakeReport) -> str:
    """Return the whole page."""
    style = files(__package__).joinpath("page.css").read_text("utf-8")
    body = [_head(report), _tiles(report), _comparison(report), _charts(report)]
    body += [_table(table) for table in tables(report)]
    title = f"Holdfast: {escaped(report.path)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><style>{style}</style></head>'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _head(report: LakeReport) -> str:
    told = covered(report)
    warnings = "".join(f'<p class="warning">{each}</p>' for each in (gap_warning(report), late_warning(report)) if each)
    return (
        f"<header><h1>What the queues did</h1><p>{escaped(told[:1].upper() + told[1:])}</p>"
        f'<p class="path">{escaped(report.path)}, {read_up_to(report)}</p></header>{warnings}'
    )


def _tiles(report: LakeReport) -> str:
    shown = "".join(
        f'<div class="tile {tile.tone}"><b>{escaped(tile.value)}</b><span>{escaped(tile.title)}</span>'
        f"{_change(tile.change, sentence=True)}</div>"
        for tile in tiles(report)
    )
    return f'<section class="tiles">{shown}</section>' if shown else ""


def _change(change: FigureChange | None, *, sentence: bool = False) -> str:
    if change is None:
        return ""
    words = change.sentence if sentence else change.words
    return f'<em class="change {change.tone}">{escaped(words)}</em>'


def _comparison(report: LakeReport) -> str:
    rows = comparison(report)
    if not rows or report.period is None:
        why = no_comparison(report)
        return f'<p class="note">{escaped(why)}</p>' if why else ""
    body = "".join(
        f"<tr><td>{escaped(row.title)}</td><td>{escaped(row.now)}</td><td>{escaped(row.before)}</td>"
        f"<td>{_change(row.change, sentence=True)}</td></tr>"
        for row in rows
    )
    before = report.period.before
    return (
        "<section><h2>Compared with the period before</h2>"
        f'<p class="note">{before.since:%Y-%m-%d %H:%M} to {before.until:%Y-%m-%d %H:%M} (UTC)</p>'
        '<div class="card"><table class="compared"><thead><tr><th></th><th>this period</th><th>before</th>'
        "<th>change</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _charts(report: LakeReport) -> str:
    if report.period is None:
        return ""
    drawn = "".join(
        f'<figure class="card"><figcaption>{escaped(panel.title)}</figcaption>{draw(report.period, panel)}</figure>'
        for panel in panels(report)
    )
    return f'<section><h2>Over time</h2><div class="charts">{drawn}</div></section>'


def _table(table: ReportTable) -> str:
    head = "".join(f"<th{_side(column)}>{escaped(column.title)}</th>" for column in table.columns)
    body = "".join(_row(table.columns, row) for row in table.rows)
    note = f'<p class="note">{escaped(table.note)}</p>' if table.note else ""
    short = ' class="short"' if len(table.rows) <= SHORT else ""
    return (
        f"<section{short}><h2>{escaped(table.title)}</h2>{note}"
        f'<div class="card"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>'
    )


def _row(columns: Sequence[ReportColumn], row: Row) -> str:
    cells = (
        f"<td{_side(column)}>{escaped(str(column.text(row) or ''))}{_change(column.change(row))}</td>"
        for column in columns
    )
    return f"<tr>{''.join(cells)}</tr>"


def _side(column: ReportColumn) -> str:
    return ' class="words"' if column.words else ""
