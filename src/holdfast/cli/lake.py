"""`holdfast lake`: the event log as tables, brought up to date, shown, tidied and replayed."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..app import Holdfast
from ..errors import ConfigError, LakeBusy
from .group import Group
from .show import json_line, json_out, note, table
from .source import Source, json_option, source_options
from .value import as_seconds

if TYPE_CHECKING:
    from ..spark.lake import Done
    from ..spark.lake.report import Report

FOLDER = "holdfast-lake"
path_option = click.option(
    "--path", type=click.Path(file_okay=False, path_type=Path), envvar="HOLDFAST_LAKE", default=FOLDER,
    show_default=True, help="The lake's folder. [env: HOLDFAST_LAKE]",
)  # fmt: skip


@click.group(cls=Group)
def lake() -> None:
    """Bring the history of all jobs into tables, and look at it. Needs holdfast[spark].

    \b
    Examples:
      holdfast lake run --url sqlite:///jobs.db --once
      holdfast lake report --html report.html
      holdfast lake replay --url sqlite:///jobs.db --where "queue = 'mail' AND state = 'failed'" --dry-run
    """


@lake.command()
@source_options
@path_option
@click.option("--once", is_flag=True, help="Bring the lake up to date and end.")
@click.option(
    "--every", callback=as_seconds, default="30s", show_default=True, metavar="S", help="How often to look for more."
)
@click.option("--master", metavar="URL", help="The Spark master; default: this machine.")
@json_option
def run(source: Source, path: Path, once: bool, every: float, master: str | None, as_json: bool) -> None:
    """Bring the lake up to date with the store's event log, and keep it so.

    Each batch is written down before it is read, and counts once, however often it is broken off: kill it at
    any time and run it again. SIGTERM or Ctrl-C ends it after the batch at hand; a second one at once.

    \b
    Examples:
      holdfast lake run --app shop:app --every 1m
      holdfast lake run --url postgresql://db/shop --path /srv/lake --once
      holdfast lake run --url redis://cache --master spark://head:7077 --path /shared/lake
    """
    from ..spark import refuse_remote, session
    from ..spark.lake import Lake, follow

    logging.basicConfig(level="WARNING", format="%(levelname)s: %(message)s")
    app = source.app()
    stop = _Stop()
    spark = session(master, name="holdfast lake")
    try:
        refuse_remote(app.store.url, spark)
        with app.sync, stop:
            made = Lake(path, app, spark)
            follow(made, None if once else every, lambda done: _say(done, once, as_json), stop.wait)
    finally:
        spark.stop()


class _Stop:
    """A signal asks for the end; a second one takes it."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Stop:
        self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: object) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
        note("stopping after this batch; once more to stop at once")

    def wait(self, seconds: float) -> bool:
        """Return True when the end was asked for, at the latest after so many seconds."""
        return self._asked.wait(seconds)


def _say(done: Done | LakeBusy | None, once: bool, as_json: bool) -> None:
    """A line says what a batch brought. Nothing new is told only to those who asked once."""
    if isinstance(done, LakeBusy):
        if once:
            raise done
        note(f"{done}; going on")
    elif as_json:
        told = {"batch": None, "events": 0} if done is None else vars(done)
        json_line(told)
    elif done is None:
        click.echo("nothing new") if once else None
    else:
        rate = done.events / done.seconds if done.seconds else 0
        missing = f", {done.missing:,} missing" if done.missing else ""
        click.echo(f"batch {done.batch}: {done.events:,} events in {done.seconds:.1f} s ({rate:,.0f}/s){missing}")
    sys.stdout.flush()


@lake.command()
@path_option
@click.option("--since", metavar="WHEN", help="From then on: 1h, 2d, or a time as 2026-11-16T08:00. Default: all.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one HTML page with charts.")
@json_option
def report(path: Path, since: str | None, html: Path | None, as_json: bool) -> None:
    """Show what happened: queues, errors, tenants, workers. Neither Spark nor the store is needed to look.

    \b
    Examples:
      holdfast lake report --path /srv/lake --since 1h
      holdfast lake report --html report.html
    """
    from ..spark.lake.report import report as made

    found = made(path, _since(since))
    if html is not None:
        from ..spark.lake.page import page

        html.write_text(page(found), "utf-8")
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
        from .value import seconds

        return datetime.now(UTC) - timedelta(seconds=seconds(text, "--since"))
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def show(found: Report) -> None:
    """A report is printed as tables."""
    from ..spark.lake.page import BACKLOG, ERRORS, QUEUES, TENANTS, WORKERS, when

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
            names = [f">{name}" if name in numbers else name for name, _ in columns]
            table(names, [[value(row) for _, value in columns] for row in rows])
    for row in found.gaps:
        lost = "the log was reset" if row["missing"] is None else f"{row['missing']:,} events were trimmed unread"
        note(f"a gap: {lost} (batch {row['batch']}, {when(row['noticed_at'])})")


_WORDS = {"state", "oldest since", "error", "task", "signature", "last seen", "for example", "key"}


@lake.command()
@path_option
@click.option(
    "--older-than", callback=as_seconds, default="7d", show_default=True, metavar="S",
    help="Remove files that were replaced, or left by a killed run, so long ago.",
)  # fmt: skip
@json_option
def vacuum(path: Path, older_than: float, as_json: bool) -> None:
    """Make few large files of many small ones, and remove what nobody needs.

    Days that are over are compacted; no row changes. Whoever reads an older version of a table needs the
    files that are removed.

    \b
    Examples:
      holdfast lake vacuum --path /srv/lake
      holdfast lake vacuum --older-than 1d
    """
    from ..spark.lake.vacuum import vacuum as tidy

    done = tidy(path, timedelta(seconds=older_than))
    if as_json:
        json_out({"tables": [vars(each) for each in done]})
        return
    rows = [(each.table, each.files_before, each.files_after, each.removed) for each in done]
    table(("table", ">files before", ">after", ">removed from disk"), rows)


@lake.command()
@source_options
@path_option
@click.option("--where", required=True, metavar="SQL", help="A condition on the table jobs.")
@click.option("--name", default="", help="Another replay of the same jobs needs another name.")
@click.option("--dry-run", is_flag=True, help="Say what would be enqueued, and enqueue nothing.")
@json_option
def replay(source: Source, path: Path, where: str, name: str, dry_run: bool, as_json: bool) -> None:
    """Enqueue finished jobs of the past again, with the payload that the store or the lake still has.

    Each gets a new id, ID~RUN, that names the old one; the same replay twice enqueues nothing twice. A queue
    with history=payloads keeps payloads in its events, so that the lake has them for good.

    \b
    Examples:
      holdfast lake replay --app shop:app --where "queue = 'mail' AND state = 'failed'" --dry-run
      holdfast lake replay --where "task = 'bill' AND finished_at >= TIMESTAMP '2026-11-15'" --name again
    """
    from ..spark.lake.replay import Replay

    if "~" in name:
        raise ConfigError(f"--name {name!r}: leave out ~, which parts it from the id")

    async def work(app: Holdfast) -> Any:
        return await Replay(path, app, name).run(where, dry_run=dry_run)

    told = source.run(work)
    counts = {word: getattr(told.counts, word) for word in ("queued", "duplicate", "completed")}
    if as_json:
        json_out({"chosen": told.chosen, "before": told.before, **counts, "lacking": told.lacking, "dry_run": dry_run})
        return
    for queue, old, new in told.ids:
        click.echo(f"{queue}/{old} -> {new}")
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "none queued"
    before = f", {told.before:,} replayed before" if told.before else ""
    click.echo(f"{told.chosen:,} chosen: {words}{' (dry run)' if dry_run else ''}{before}")
    _say_lacking(told.lacking)


def _say_lacking(lacking: list[tuple[str, str, int]]) -> None:
    if lacking:
        some = ", ".join(f"{queue}/{id}#{run}" for queue, id, run in lacking[:10])
        more = f" and {len(lacking) - 10:,} more" if len(lacking) > 10 else ""
        note(f"{len(lacking):,} lack their payload in the store and in the lake: {some}{more}")


__all__ = ["lake", "show"]
