"""`holdfast jobs`: list and show."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import click
import msgspec

from ...app.app import Holdfast
from ...core.event import Event
from ...core.job import JobRecord
from ...core.state import State
from ...core.visible import visible, visible_lines
from ...json import form as json_form
from ...json.form import JsonObject
from ...store.contract import JobPage
from ..command import CommandGroup, OptionValue, Source, json_option, source_options
from ..complete import complete_queues, complete_tasks
from ..output import console, duration, json_out, json_text, say_more, table
from ..parse import as_instant, as_prefix, by_option
from .watch import watch

T = TypeVar("T")


@click.group(cls=CommandGroup, default="list")
def jobs() -> None:
    """List, show and watch jobs. Alone, it lists.

    \b
    Examples:
      holdfast jobs --app shop:app
      holdfast jobs --url sqlite:///jobs.db --queue mail --state failed
      holdfast jobs show mail mail-1 --app shop:app
      holdfast jobs watch mail mail-1 --app shop:app
    """


jobs.add_command(watch)


@jobs.command("list")
@source_options
@click.option("--queue", metavar="NAME", shell_complete=complete_queues, help="Of this queue.")
@click.option("--state", type=click.Choice([str(state) for state in State]), help="In this state.")
@click.option("--task", metavar="NAME", shell_complete=complete_tasks, help="Of this task.")
@click.option("--key", help="With this concurrency key.")
@click.option("--tag", metavar="WORD", help="With this tag.")
@click.option("--worker", metavar="NAME", help="Held by this worker, by its name or session.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="With this id, as it stands; may be given again.")
@click.option("--id-prefix", metavar="TEXT", callback=as_prefix, help="With an id that begins with this.")
@click.option("--signature", metavar="HEX", help="That failed, or are failing, with errors of this signature.")
@click.option("--since", metavar="WHEN", callback=as_instant, help="That came since then: an instant, or 2h ago.")
@click.option("--until", metavar="WHEN", callback=as_instant, help="That came before: an instant, or 2h ago.")
@by_option
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@click.option("--cursor", help="Where the last list ended.")
@json_option
def list_(source: Source, as_json: bool, ids: tuple[str, ...], **given: OptionValue) -> None:
    """List jobs, newest first; or, with --id, those that are there, in that order.

    What waits is listed by when it was due, what is completed by when it is removed, the last first; what is scheduled
    by when it is due, the next first.

    \b
    Examples:
      holdfast jobs list --worker host-7
      holdfast jobs list --queue mail --id mail-1 --id mail-2
      holdfast jobs list --queue mail --state failed --limit 10
      holdfast jobs --state waiting --json
      holdfast jobs --id-prefix order- --since 2h
      holdfast jobs --state failed --by finished --since 1h
    """
    page, now = source.run(lambda app: timed(app, _page(app, ids or None, **given)))
    if as_json:
        json_out({"jobs": [json_form.job(job) for job in page.jobs], "cursor": page.cursor})
        return
    columns = ("queue", "id", ">?run", "task", "state", ">?attempts", ">?failures", "?key", "age", "error")
    table(columns, [_row(job, now) for job in page.jobs])
    say_more(page.cursor)


async def _page(
    app: Holdfast, ids: tuple[str, ...] | None, *, limit: int, cursor: str | None, since: Any, until: Any, by: str,
    **which: Any,
) -> JobPage:  # fmt: skip
    """Return a whole page: the store may look at some of its jobs, and find none that matches."""
    found: list[JobRecord] = []
    which |= {f"{by}_after": since, f"{by}_before": until}
    while True:
        page = await app.jobs(ids=ids, limit=limit - len(found), cursor=cursor, **which)
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return JobPage(jobs=found, cursor=cursor)


async def timed(app: Holdfast, page: Awaitable[T]) -> tuple[T, int]:
    """Return a page, and the store's time at which it was read."""
    return await page, await app.store.now_ms()


def _row(job: JobRecord, now: int) -> tuple[object, ...]:
    error = f"{job.error.type}: {job.error.message}" if job.error else None
    counters = job.counters
    age = duration(max(0, now - job.enqueued_at_ms))
    return (
        job.queue,
        job.id,
        job.run,
        job.task,
        job.state,
        counters.attempts,
        counters.failures,
        job.key,
        age,
        error,
    )


@jobs.command()
@click.argument("queue", shell_complete=complete_queues)
@click.argument("job_id", metavar="ID")
@source_options
@click.option("--run", type=int, metavar="N", help="This run of it; default: the one that answers for the id.")
@json_option
def show(source: Source, queue: str, job_id: str, run: int | None, as_json: bool) -> None:
    """Show one job: payload, result, error, counters, progress, and what happened to it.

    \b
    Examples:
      holdfast jobs show mail mail-1 --app shop:app
      holdfast jobs show mail mail-1 --run 7 --json
    """

    async def work(app: Holdfast) -> JsonObject:
        record = await app.status(queue, job_id, run)
        return json_form.job_detail(app, record, await _timeline(app, record))

    detail = source.run(work)
    json_out(detail) if as_json else _print(detail)


async def _timeline(app: Holdfast, record: JobRecord) -> list[Event]:
    """Return the events of one run."""
    events = app.queue(record.queue).events(job_id=record.id)
    return [event async for event in events if event.run == record.run]


def _print(detail: JsonObject) -> None:
    names = ("queue", "id", "run", "task", "state", "priority", "key", "worker", *_INSTANTS)
    rows = [(name, detail[name]) for name in names if detail[name] is not None]
    rows.append(("counters", ", ".join(f"{count} {name}" for name, count in detail["counters"].items() if count)))
    for name in ("payload", "result", "checkpoint", "headers", "tags"):
        if detail[name] or (name == "result" and detail["state"] == "completed"):
            rows.append((name, _json(detail[name])))
    rows += _marks(detail)
    table(("", ""), rows, header=False)
    _print_error(detail["error"])
    _print_timeline(detail["timeline"])


_INSTANTS = ("enqueued_at", "run_at", "started_at", "finished_at", "expires_at")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _marks(detail: JsonObject) -> list[tuple[str, str]]:
    """Return the rows that only some jobs have."""
    marks = []
    if progress := detail["progress"]:
        share = f"{progress['fraction']:.0%} " if progress["fraction"] is not None else ""
        marks.append(("progress", share + progress["message"]))
    if detail["cancel_requested"]:
        marks.append(("cancel", "its handler has been told to stop"))
    if detail["successor"]:
        marks.append(("successor", "another dispatch waits for this run to end"))
    if chain := detail["chain"]:
        marks.append(("chain", f"{chain['queue']}/{chain['id']} run {chain['run']}, position {detail['position']}"))
    if detail["company"] is not None:
        beside = f"beside {detail['company'] - 1} others at most" if detail["company"] > 1 else "alone"
        marks.append(("suspect", f"it stalled, and is tried again {beside}"))
    if detail["blockers"]:
        marks.append(("blockers", f"{detail['blockers']} still open"))
    return marks


def _print_error(error: JsonObject | None) -> None:
    if error is None:
        return
    out = console()
    message = visible_lines(error["message"]).replace("\n", "\n    ")
    out.print(f"\n{visible(error['type'])}: {message} ({visible(error['kind'])})", style="red")
    if error["fields"]:
        out.print(json_text(error["fields"]))
    if error["traceback"]:
        out.print(visible_lines(error["traceback"].rstrip()), soft_wrap=True)


def _print_timeline(timeline: list[JsonObject]) -> None:
    if not timeline:
        return
    click.echo()
    rows = [
        (each["at"], each["transition"], each["state"], each["attempt"], each["cause"], duration(each["wait_ms"]),
         duration(each["run_ms"]), each["error_type"], each["worker"], each["actor"])
        for each in timeline
    ]  # fmt: skip
    table(("at", "what", "state", ">?attempt", "cause", ">?waited", ">?ran", "error", "?worker", "?by"), rows)
