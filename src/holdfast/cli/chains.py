"""`holdfast chains`: list, show, complete and delete."""

from __future__ import annotations

import click

from ..app.app import Holdfast
from ..core.state import State
from ..core.transition import Reply
from ..json import form as json_form
from ..json.form import JsonObject
from ..store.contract import ChainRecord, DeleteResult
from .command import CommandGroup, NotDone, OptionValue, Source, acting_options, json_option, source_options
from .complete import complete_queues, complete_tasks
from .job.jobs import timed
from .output import duration, json_out, say, say_more, table
from .parse import json_or_text


@click.group(cls=CommandGroup, default="list")
def chains() -> None:
    """List, show, complete and delete chains of jobs. Alone, it lists.

    \b
    Examples:
      holdfast chains --app shop:app
      holdfast chains show shop order-7 --app shop:app
      holdfast chains complete shop order-7 '"approved"' --app shop:app
    """


@chains.command("list")
@source_options
@click.option("--queue", metavar="NAME", shell_complete=complete_queues, help="Whose first job is in this queue.")
@click.option("--state", type=click.Choice([str(state) for state in State]), help="In this state.")
@click.option("--task", metavar="NAME", shell_complete=complete_tasks, help="Whose first job is of this task.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@click.option("--cursor", help="Where the last list ended.")
@json_option
def list_(source: Source, as_json: bool, **which: OptionValue) -> None:
    """List chains of more than one job, newest first.

    \b
    Examples:
      holdfast chains list --queue shop --state failed
      holdfast chains --json
    """
    page, now = source.run(lambda app: timed(app, app.chains(**which)))
    if as_json:
        json_out({"chains": [json_form.chain(each) for each in page.chains], "cursor": page.cursor})
        return
    table(
        ("queue", "id", ">?run", "task", "state", ">?position", "at", "age"), [_row(each, now) for each in page.chains]
    )
    say_more(page.cursor)


def _row(chain: ChainRecord, now: int) -> tuple[object, ...]:
    ref, at = chain.ref, chain.current
    age = duration(max(0, now - chain.enqueued_at_ms))
    return ref.queue, ref.id, ref.run, chain.task, chain.state, chain.position, f"{at.queue}/{at.id}", age


@chains.command()
@click.argument("queue", shell_complete=complete_queues)
@click.argument("job_id", metavar="ID")
@source_options
@click.option("--run", type=int, metavar="N", help="This run of it; default: the one that answers for the id.")
@click.option(
    "--limit", type=click.IntRange(1), default=1000, show_default=True, help="At most so many of its jobs: the last."
)
@click.option("--cursor", help="Where the jobs of the last page ended: those before them.")
@json_option
def show(source: Source, queue: str, job_id: str, run: int | None, as_json: bool, **part: OptionValue) -> None:
    """Show one chain and its jobs, by its first job or any other.

    \b
    Examples:
      holdfast chains show shop order-7 --app shop:app
      holdfast chains show shop order-7 --json
    """

    async def work(app: Holdfast) -> JsonObject:
        chain = await app.chain(queue, job_id, run)
        page = await app.jobs(chain=chain.ref, **part)
        members = sorted(map(json_form.job, page.jobs), key=lambda job: job["position"])
        return {
            **json_form.chain(chain),
            "result": json_form.chain_result(app, chain),
            "jobs": members,
            "cursor": page.cursor,
        }

    detail = source.run(work)
    json_out(detail) if as_json else _print(detail)


def _print(detail: JsonObject) -> None:
    names = ("queue", "id", "run", "task", "state", "enqueued_at", "finished_at", "expires_at", "result")
    table(("", ""), [(name, detail[name]) for name in names if detail[name] is not None], header=False)
    click.echo()
    columns = ("position", "queue", "id", "run", "task", "state", "?started_at", "?finished_at")
    table(columns, [tuple(job[name.lstrip("?")] for name in columns) for job in detail["jobs"]])
    say_more(detail["cursor"])


@chains.command()
@click.argument("queue", shell_complete=complete_queues)
@click.argument("job_id", metavar="ID")
@click.argument("result", default="null")
@acting_options
@json_option
def complete(source: Source, queue: str, job_id: str, result: str, as_json: bool) -> None:
    """Complete a chain, or a single job, from outside.

    RESULT is JSON, or else a text. A handler that runs is told to stop, and what it returns does not count.

    \b
    Example:
      holdfast chains complete expenses claim-7 '"approved"' --app shop:app
    """
    reply = source.run(lambda app: app.complete_chain(queue, job_id, json_or_text(result)))
    if as_json:
        json_out({"queue": queue, "id": job_id, "reply": reply})
    if reply is not Reply.OK:
        raise NotDone(f"{queue}/{job_id} is not completed: it is over already; `holdfast chains show` says how")
    if not as_json:
        say(f"{queue}/{job_id}: completed")


@chains.command()
@click.argument("queue", shell_complete=complete_queues)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@acting_options
@click.option("--cascade", is_flag=True, help="Delete chains that wait for them as well.")
@json_option
def delete(source: Source, queue: str, ids: tuple[str, ...], cascade: bool, as_json: bool) -> None:
    """Remove chains and all their jobs. Refused while others wait for them. Exit code 1 when one is left.

    \b
    Examples:
      holdfast chains delete shop order-7 order-8 --app shop:app
      holdfast chains delete shop order-7 --cascade
    """
    answers = source.run(lambda app: app.delete_chains([(queue, id) for id in ids], cascade=cascade))
    answered = list(zip(ids, answers, strict=True))
    if as_json:
        json_out([{"queue": queue, "id": id, "reply": each.reply, "chains": each.chains} for id, each in answered])
    for job_id, deleted in answered if not as_json else ():
        if deleted:
            others = f", and {deleted.chains - 1} that waited for it" if deleted.chains > 1 else ""
            say(f"{queue}/{job_id}: deleted{others}")
    if refused := [_refusal(queue, job_id, deleted) for job_id, deleted in answered if not deleted]:
        raise NotDone("; ".join(refused))


def _refusal(queue: str, job_id: str, deleted: DeleteResult) -> str:
    if deleted.reply is Reply.MISSING:
        return f"there is no job {queue}/{job_id}, or it has expired; `holdfast chains` lists those there are"
    waiting = ", ".join(f"{ref.queue}/{ref.id}" for ref in deleted.waiting[:3])
    more = f" and {len(deleted.waiting) - 3} more" if len(deleted.waiting) > 3 else ""
    return f"{queue}/{job_id} is not deleted: {waiting}{more} waits for it; --cascade deletes that too"
