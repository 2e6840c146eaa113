"""A report as one HTML page: without scripts or anything to load, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from .chart import Axis, Series, bars, curves
from .columns import BACKLOG, ERRORS, QUEUES, TENANTS, WORKERS, Column, aware, duration, escaped, percent, when
from .report import LakeReport, Row


def html_page(report: LakeReport) -> str:
    """Return the whole page."""
    style = files(__package__).joinpath("page.css").read_text()
    body = [_head(report), _tiles(report), _gaps(report), _queues(report), _charts(report), _tables(report)]
    title = f"Holdfast: {escaped(report.path)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><style>{style}</style></head>'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _head(report: LakeReport) -> str:
    if report.first is None or report.last is None:
        covered = "Nothing has happened in this time."
    else:
        covered = f"{when(report.first)} to {when(report.last)}, read up to {when(report.read_at)} (UTC)"
    return f"<header><h1>Holdfast lake</h1><p>{escaped(report.path)}</p><p>{covered}</p></header>"


def _tiles(report: LakeReport) -> str:
    def total(name: str) -> int:
        return sum(row[name] or 0 for row in report.queues)

    ended = total("ended")
    wrong = sum((row["failure_rate"] or 0) * (row["ended"] or 0) for row in report.queues)
    open_jobs = sum(row["jobs"] for row in report.backlog)
    tiles = (
        ("completed", f"{total('completed'):,}", "good"),
        ("failed for good", f"{total('failed'):,}", "bad"),
        ("attempts that went wrong", percent(wrong / ended if ended else None), ""),
        ("workers that vanished, attempts", f"{total('stalled'):,}", ""),
        ("still open", f"{open_jobs:,}", ""),
    )
    shown = "".join(f'<div class="tile {kind}"><b>{value}</b><span>{name}</span></div>' for name, value, kind in tiles)
    return f'<section class="tiles">{shown}</section>'


def _gaps(report: LakeReport) -> str:
    if not report.gaps:
        return ""
    missing = sum(row["missing"] or 0 for row in report.gaps)
    resets = sum(row["missing"] is None for row in report.gaps)
    return (
        f'<p class="warning">This history has gaps: {missing:,} events were trimmed before they were read, and the log '
        f"was reset {resets:,} times.</p>"
    )


def _queues(report: LakeReport) -> str:
    return _table("Queues", QUEUES, report.queues)


def _tables(report: LakeReport) -> str:
    return (
        _table("Open as of the last batch", BACKLOG, report.backlog)
        + _table("Errors", ERRORS, report.errors)
        + _table("Tenants, by attempts started", TENANTS, report.tenants)
        + _table("Workers", WORKERS, report.workers)
    )


def _table(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escaped(name)}</th>" for name, _ in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(str(value(row) or ''))}</td>" for _, value in columns) + "</tr>" for row in rows
    )
    return (
        f'<section><h2>{escaped(title)}</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _charts(report: LakeReport) -> str:
    if report.first is None or not report.series:
        return ""
    axis = _axis(report)
    panels = []
    for row in report.queues:
        mine = [each for each in report.series if each["queue"] == row["queue"]]
        panels.append(_panel(f"{row['queue']}: jobs", bars(axis, _series(axis, mine, THROUGHPUT))))
        panels.append(_panel(f"{row['queue']}: waits", curves(axis, _series(axis, mine, WAITS), duration)))
    if report.busy:
        shown = _series(axis, report.busy, (("slots at work", "--calm", "busy"),))
        panels.append(_panel("workers: slots at work", bars(axis, shown, lambda value: f"{value:,.1f}")))
    return f'<section class="charts">{"".join(panels)}</section>'


THROUGHPUT = (("completed", "--good", "completed"), ("retried", "--odd", "retried"), ("failed", "--bad", "failed"))
WAITS = (("wait p50", "--calm", "wait_p50_ms"), ("wait p90", "--odd", "wait_p90_ms"))


def _axis(report: LakeReport) -> Axis:
    times = [aware(row["at"]) for row in (*report.series, *report.busy)]
    steps = round((max(times) - min(times)) / report.step) + 1
    return Axis(min(times), report.step, steps)


def _series(axis: Axis, rows: Iterable[Row], wanted: Sequence[tuple[str, str, str]]) -> list[Series]:
    values: dict[str, list[float | None]] = {column: [None] * axis.count for _, _, column in wanted}
    for row in rows:
        index = round((aware(row["at"]) - axis.first) / axis.step)
        for column, found in values.items():
            found[index] = row[column]
    return [Series(name, colour, values[column]) for name, colour, column in wanted]


def _panel(title: str, chart: str) -> str:
    return f'<figure class="panel"><figcaption>{escaped(title)}</figcaption>{chart}</figure>'
