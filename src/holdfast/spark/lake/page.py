"""A report as one HTML page: no script, nothing from elsewhere, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from .chart import Axis, Line, bars, curves
from .report import Report, Row
from .safe import text

Cell = tuple[str, Callable[[Row], Any]]


def page(report: Report) -> str:
    """Return the whole page."""
    style = files(__package__).joinpath("page.css").read_text()
    body = [_head(report), _tiles(report), _gaps(report), _queues(report), _charts(report), _tables(report)]
    title = f"Holdfast: {text(report.path)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><style>{style}</style></head>'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _head(report: Report) -> str:
    if report.first is None or report.last is None:
        told = "Nothing has happened in this time."
    else:
        told = f"{when(report.first)} to {when(report.last)}, read up to {when(report.read_at)} (UTC)"
    return f"<header><h1>Holdfast lake</h1><p>{text(report.path)}</p><p>{told}</p></header>"


def _tiles(report: Report) -> str:
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


def _gaps(report: Report) -> str:
    if not report.gaps:
        return ""
    missing = sum(row["missing"] or 0 for row in report.gaps)
    resets = sum(row["missing"] is None for row in report.gaps)
    return (
        f'<p class="warning">This history has gaps: {missing:,} events were trimmed before they were read, and the log '
        f"was reset {resets:,} times.</p>"
    )


QUEUES: tuple[Cell, ...] = (
    ("queue", lambda row: row["queue"]),
    ("enqueued", lambda row: count(row["enqueued"])),
    ("completed", lambda row: count(row["completed"])),
    ("failed", lambda row: count(row["failed"])),
    ("cancelled", lambda row: count(row["cancelled"])),
    ("retried", lambda row: count(row["retried"])),
    ("stalled", lambda row: count(row["stalled"])),
    ("went wrong", lambda row: percent(row["failure_rate"])),
    ("wait p50", lambda row: span(row["wait_p50_ms"])),
    ("wait p99", lambda row: span(row["wait_p99_ms"])),
    ("oldest", lambda row: span(row["oldest_ms"])),
    ("run p50", lambda row: span(row["run_p50_ms"])),
    ("run p99", lambda row: span(row["run_p99_ms"])),
    ("fairness", lambda row: ratio(row["fairness"])),
)
BACKLOG: tuple[Cell, ...] = (
    ("queue", lambda row: row["queue"]),
    ("state", lambda row: row["state"]),
    ("jobs", lambda row: count(row["jobs"])),
    ("oldest since", lambda row: when(row["since"])),
)
ERRORS: tuple[Cell, ...] = (
    ("queue", lambda row: row["queue"]),
    ("error", lambda row: row["error_type"]),
    ("task", lambda row: row["task"]),
    ("signature", lambda row: row["error_signature"]),
    ("count", lambda row: count(row["count"])),
    ("last seen", lambda row: when(row["last"])),
    ("for example", lambda row: row["example"]),
)
TENANTS: tuple[Cell, ...] = (
    ("queue", lambda row: row["queue"]),
    ("key", lambda row: row["key"]),
    ("started", lambda row: count(row["started"])),
    ("completed", lambda row: count(row["completed"])),
    ("failed", lambda row: count(row["failed"])),
    ("mean wait", lambda row: span(row["wait_mean_ms"])),
    ("longest wait", lambda row: span(row["wait_max_ms"])),
    ("time run", lambda row: span(row["ran_ms"])),
)
WORKERS: tuple[Cell, ...] = (
    ("worker", lambda row: row["worker"]),
    ("attempts", lambda row: count(row["ended"])),
    ("time run", lambda row: span(row["busy_ms"])),
    ("slots at work", lambda row: ratio(row["busy"])),
    ("minutes", lambda row: count(row["minutes"])),
)


def _queues(report: Report) -> str:
    return _table("Queues", QUEUES, report.queues)


def _tables(report: Report) -> str:
    return (
        _table("Open as of the last batch", BACKLOG, report.backlog)
        + _table("Errors", ERRORS, report.errors)
        + _table("Tenants, by attempts started", TENANTS, report.tenants)
        + _table("Workers", WORKERS, report.workers)
    )


def _table(title: str, columns: Sequence[Cell], rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{text(name)}</th>" for name, _ in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(str(value(row) or ''))}</td>" for _, value in columns) + "</tr>" for row in rows
    )
    return (
        f'<section><h2>{text(title)}</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _charts(report: Report) -> str:
    if report.first is None or not report.series:
        return ""
    axis = _axis(report)
    panels = []
    for row in report.queues:
        mine = [each for each in report.series if each["queue"] == row["queue"]]
        panels.append(_panel(f"{row['queue']}: jobs", bars(axis, _lines(axis, mine, THROUGHPUT))))
        panels.append(_panel(f"{row['queue']}: waits", curves(axis, _lines(axis, mine, WAITS), span)))
    if report.busy:
        shown = _lines(axis, report.busy, (("slots at work", "--calm", "busy"),))
        panels.append(_panel("workers: slots at work", bars(axis, shown, lambda value: f"{value:,.1f}")))
    return f'<section class="charts">{"".join(panels)}</section>'


THROUGHPUT = (("completed", "--good", "completed"), ("retried", "--odd", "retried"), ("failed", "--bad", "failed"))
WAITS = (("wait p50", "--calm", "wait_p50_ms"), ("wait p90", "--odd", "wait_p90_ms"))


def _axis(report: Report) -> Axis:
    times = [_aware(row["at"]) for row in (*report.series, *report.busy)]
    steps = round((max(times) - min(times)) / report.step) + 1
    return Axis(min(times), report.step, steps)


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _lines(axis: Axis, rows: Iterable[Row], wanted: Sequence[tuple[str, str, str]]) -> list[Line]:
    values: dict[str, list[float | None]] = {column: [None] * axis.count for _, _, column in wanted}
    for row in rows:
        index = round((_aware(row["at"]) - axis.first) / axis.step)
        for column, found in values.items():
            found[index] = row[column]
    return [Line(name, colour, values[column]) for name, colour, column in wanted]


def _panel(title: str, chart: str) -> str:
    return f'<figure class="panel"><figcaption>{text(title)}</figcaption>{chart}</figure>'


def when(at: datetime | None) -> str:
    """Return an instant for people."""
    return "" if at is None else f"{_aware(at):%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def span(ms: float | None) -> str:
    """Return a duration for people."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def percent(value: float | None) -> str:
    """Return a share of one as a percentage."""
    return "" if value is None else f"{100 * value:.1f} %"


def ratio(value: float | None) -> str:
    """Return a number with two decimals."""
    return "" if value is None else f"{value:.2f}"


def count(value: int | None) -> str:
    """Return a number of things."""
    return f"{value or 0:,}"
