"""`holdfast lake report` and `vacuum`: show and compact a lake, with neither Spark nor its store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...errors import ConfigError
from ..command import json_option
from ..output import json_out, say_note, table
from ..parse import as_seconds, seconds

F = TypeVar("F", bound=Callable[..., Any])  # a command, with whatever options it has

if TYPE_CHECKING:
    from ...spark.lake import LakeLocation
    from ...spark.lake.report import LakeReport

FOLDER = "holdfast-lake"


def path_option(command: F) -> F:
    """Add the options that say where the lake is, and give the command a `LakeLocation` as `path`."""

    @wraps(command)
    def located(*args: object, path: str, storage_option: tuple[str, ...], **options: object) -> object:
        from ...spark.lake import LakeLocation

        return command(*args, path=LakeLocation.of(path, _storage_options(storage_option)), **options)

    where = click.option(
        "--path", envvar="HOLDFAST_LAKE", default=FOLDER, show_default=True,
        help="The lake's folder, or a URL of object storage such as s3://bucket/lake. [env: HOLDFAST_LAKE]",
    )  # fmt: skip
    how = click.option(
        "--storage-option", multiple=True, metavar="NAME=VALUE",
        help="An option of the object storage, as delta-rs has them; most are found in the environment.",
    )  # fmt: skip
    return where(how(located))  # type: ignore[return-value]


def _storage_options(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for word, (name, equals, _) in zip(words, pairs, strict=True):
        if not equals or not name:
            raise ConfigError(f"--storage-option {word!r}: give NAME=VALUE, as in AWS_REGION=eu-central-1")
    return {name: value for name, _, value in pairs}


@click.command()
@path_option
@click.option("--since", metavar="WHEN", help="From then on: 1h, 2d, or a time as 2026-11-16T08:00. Default: all.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one HTML page with charts.")
@json_option
def report(path: LakeLocation, since: str | None, html: Path | None, as_json: bool) -> None:
    """Show what happened: queues, errors, tenants, workers. Neither Spark nor the store is needed to look.

    \b
    Examples:
      holdfast lake report --path /srv/lake --since 1h
      holdfast lake report --html report.html
    """
    from ...spark.lake.report import html_page, make_report

    found = make_report(path, _since(since))
    if html is not None:
        html.write_text(html_page(found), "utf-8")
        click.echo(f"written: {html}")
    elif as_json:
        json_out({name: value for name, value in vars(found).items() if isinstance(value, list)})
    else:
        show(found)


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC) - timedelta(seconds=seconds(text, "--since"))
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def show(found: LakeReport) -> None:
    """Print a report as tables."""
    from ...spark.lake.report.columns import BACKLOG, ERRORS, QUEUES, TENANTS, WORKERS, when

    if not found.queues:
        click.echo("nothing has happened in this time")
    for title, columns, rows in (
        ("Queues", QUEUES, found.queues),
        ("Open as of the last batch", BACKLOG, found.backlog),
        ("Errors", ERRORS, found.errors),
        ("Tenants", TENANTS, found.tenants),
        ("Workers", WORKERS, found.workers),
    ):
        if rows:
            click.echo(f"\n{title}")
            numbers = {name for name, _ in columns[1:]} - _WORDS
            marks = [">" if at < ALWAYS else ">?" for at in range(len(columns))]
            names = [mark + name if name in numbers else name for mark, (name, _) in zip(marks, columns, strict=True)]
            table(names, [[value(row) for _, value in columns] for row in rows])
    for row in found.gaps:
        lost = "the log was reset" if row["missing"] is None else f"{row['missing']:,} events were trimmed unread"
        say_note(f"a gap: {lost} (batch {row['batch']}, {when(row['noticed_at'])})")


ALWAYS = 4
"""How many columns are shown in the narrowest terminal."""
_WORDS = {"state", "oldest since", "error", "task", "signature", "last seen", "for example", "key"}


@click.command()
@path_option
@click.option(
    "--older-than", callback=as_seconds, default="7d", show_default=True, metavar="S",
    help="Remove files that were replaced so long ago.",
)  # fmt: skip
@json_option
def vacuum(path: LakeLocation, older_than: float, as_json: bool) -> None:
    """Make few large files of many small ones, and remove files that are no longer needed.

    Past days are compacted; no row changes. The removed files are needed only to read an older version of a
    table. What a killed run left behind is removed too, once it is a day old.

    \b
    Examples:
      holdfast lake vacuum --path /srv/lake
      holdfast lake vacuum --older-than 1d
    """
    from ...spark.lake.vacuum import vacuum as tidy

    done = tidy(path, timedelta(seconds=older_than))
    if as_json:
        json_out({"tables": [vars(each) for each in done]})
        return
    rows = [(each.table, each.files_before, each.files_after, each.removed) for each in done]
    table(("table", ">files before", ">after", ">removed from disk"), rows)
