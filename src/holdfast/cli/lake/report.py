"""`holdfast lake report`: show what happened in a lake, with neither Spark nor its store."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import ConfigError
from ..command import json_option
from ..output import json_out, say, say_note, table
from ..parse import seconds
from .look import path_option

if TYPE_CHECKING:
    from ...spark.lake import LakeLocation
    from ...spark.lake.report import LakeReport


@click.command()
@path_option
@click.option("--last", metavar="S", help="The last so many days or hours: 7d, 12h. Compared with those before.")
@click.option("--since", metavar="WHEN", help="From then on: 1h, 2d, or a time as 2026-11-16T08:00. Default: all.")
@click.option("--until", metavar="WHEN", help="Up to then, in the same words. Default: now.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; may be given again.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one HTML page with charts.")
@json_option
def report(
    path: LakeLocation, last: str | None, since: str | None, until: str | None, queues: tuple[str, ...],
    html: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Show what happened: queues, errors, what retries cost, tenants, workers. Neither Spark nor the store is needed.

    A period that was asked for is compared with the one before it. The page prints well: see the guide.

    \b
    Examples:
      holdfast lake report --path /srv/lake --last 7d
      holdfast lake report --last 7d --html report.html
      holdfast lake report --since 2026-11-01 --until 2026-12-01 --queue mail --json
    """
    from ...spark.lake.report import html_page, make_report

    if last is not None and since is not None:
        raise ConfigError("--last and --since: give one of them")
    begin, end = _instant(since, "--since"), _instant(until, "--until")
    if last is not None:
        end = end or datetime.now(UTC)
        begin = end - timedelta(seconds=seconds(last, "--last"))
    found = make_report(path, begin, end, queues)
    if html is not None:
        html.write_text(html_page(found), "utf-8")
        say(f"written: {html}")
    elif as_json:
        json_out(as_document(found))
    else:
        show(found)


@click.command()
@json_option
def views(as_json: bool) -> None:
    """Print the figures of the report as SQL views, by the hour, for DuckDB or Spark over the lake's tables.

    \b
    Example:
      holdfast lake views > views.sql
    """
    from ...spark.lake.report.views import VIEWS, view_select, view_statements

    if as_json:
        json_out({name: view_select(name) for name in VIEWS})
    else:
        click.echo(";\n\n".join(view_statements()) + ";")


def as_document(found: LakeReport) -> dict[str, Any]:
    """Return a report as JSON has it."""
    made = asdict(found) | {"step": found.step.total_seconds()}
    period = made.pop("period")
    return made | {"chosen": list(found.chosen), "begin": period and period["since"], "end": period and period["until"]}


def _instant(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC) - timedelta(seconds=seconds(text, name))
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def show(found: LakeReport) -> None:
    """Print a report as tables."""
    from ...spark.lake.report.summary import comparison, covered, gap_warning, late_warning, no_comparison, read_up_to
    from ...spark.lake.report.tables import tables

    say(covered(found))
    say(read_up_to(found))
    if compared := comparison(found):
        click.echo("\nCompared with the period before")
        rows = [(row.title, row.now, row.before, row.change and row.change.sentence) for row in compared]
        table(("", ">this period", ">before", "change"), rows)
    elif why := no_comparison(found):
        say_note(why)
    for each in tables(found):
        click.echo(f"\n{each.title}")
        marks = [("" if one.words else ">") + ("?" if one.spare else "") + one.title for one in each.columns]
        table(marks, [[one.text(row) for one in each.columns] for row in each.rows])
    for warning in filter(None, (gap_warning(found), late_warning(found))):
        say_note(warning)
