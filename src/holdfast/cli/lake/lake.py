"""`holdfast lake`: the event log as tables, brought up to date, shown, tidied and replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...app.app import Holdfast
from ...errors import ConfigError
from ..command import CommandGroup, Source, json_option, source_options
from ..output import json_out, say, say_note
from .look import path_option, vacuum
from .report import report, views
from .run import run

if TYPE_CHECKING:
    from ...spark.lake import LakeLocation
    from ...spark.lake.replay import ReplayResult


@click.group(cls=CommandGroup)
def lake() -> None:
    """Bring the history of all jobs into tables, and look at it. Needs holdfast-queue[cli,spark].

    \b
    Examples:
      holdfast lake run --url sqlite:///jobs.db --once
      holdfast lake report --html report.html
      holdfast lake replay --url sqlite:///jobs.db --where "queue = 'mail' AND state = 'failed'" --dry-run
    """


for _command in (run, report, views, vacuum):
    lake.add_command(_command)


@lake.command()
@source_options
@path_option
@click.option("--where", required=True, metavar="SQL", help="A condition on the table jobs.")
@click.option("--name", default="", help="Another replay of the same jobs needs another name.")
@click.option("--dry-run", is_flag=True, help="Say what would be enqueued, and enqueue nothing.")
@json_option
def replay(source: Source, path: LakeLocation, where: str, name: str, dry_run: bool, as_json: bool) -> None:
    """Enqueue finished jobs of the past again, with the payload that the store or the lake still has.

    Each gets a new id, ID~RUN, that names the old one; the same replay twice enqueues nothing twice. A queue
    with history=payloads keeps payloads in its events, so that the lake has them for good.

    \b
    Examples:
      holdfast lake replay --app shop:app --where "queue = 'mail' AND state = 'failed'" --dry-run
      holdfast lake replay --where "task = 'bill' AND finished_at >= TIMESTAMP '2026-11-15'" --name again
    """
    from ...spark.lake.replay import LakeReplay

    if "~" in name:
        raise ConfigError(f"--name {name!r}: leave out ~, which parts it from the id")

    async def work(app: Holdfast) -> ReplayResult:
        return await LakeReplay(path, app, name).run(where, dry_run=dry_run)

    result = source.run(work)
    counts = {word: getattr(result.counts, word) for word in ("queued", "duplicate", "completed")}
    if as_json:
        json_out(
            {
                "chosen": result.chosen,
                "before": result.before,
                **counts,
                "lacked": result.lacked,
                "lacking": result.lacking,
                "dry_run": dry_run,
            }
        )
        return
    for queue, old, new in result.ids:
        say(f"{queue}/{old} -> {new}")
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "none queued"
    before = f", {result.before:,} replayed before" if result.before else ""
    click.echo(f"{result.chosen:,} chosen: {words}{' (dry run)' if dry_run else ''}{before}")
    _say_lacking(result)


def _say_lacking(result: ReplayResult) -> None:
    if result.lacked:
        some = ", ".join(f"{queue}/{id}#{run}" for queue, id, run in result.lacking[:10])
        more = f" and {result.lacked - 10:,} more" if result.lacked > 10 else ""
        say_note(f"{result.lacked:,} lack their payload in the store and in the lake: {some}{more}")
