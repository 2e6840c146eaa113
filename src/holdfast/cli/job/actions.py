"""`holdfast cancel`, `requeue`, `promote` and `delete`."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

import click
import msgspec

from ...app.app import Holdfast
from ...app.filter import JobFilter, selected, to_requeue
from ...app.queue import AnyQueue
from ...core.bound import MOST_COUNT
from ...core.transition import Reply
from ...errors import ConfigError
from ...store.contract import CancelResult, Filter
from ..command import Command, Halfway, NotDone, OptionValue, Source, acting_options, json_option
from ..complete import complete_queues, complete_tasks
from ..interruption import command_again, interruptible
from ..output import console, json_out, say, table
from ..parse import as_instant, as_prefix, by_option

Running = Literal["refuse", "signal", "kill"]
Run = tuple[str, str, int]
CHUNK = 200


@click.command(cls=Command)
@click.argument("queue", shell_complete=complete_queues)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@acting_options
@click.option(
    "--running", type=click.Choice(["refuse", "signal", "kill"]), default="refuse", show_default=True,
    help="What happens to one that runs: leave it, tell its handler to stop, or kill its process.",
)  # fmt: skip
@json_option
def cancel(source: Source, queue: str, ids: tuple[str, ...], running: str, as_json: bool) -> None:
    """Cancel jobs. Exit code 1 when one of them could not be.

    \b
    Examples:
      holdfast cancel mail mail-1 mail-2 --app shop:app
      holdfast cancel mail mail-1 --running signal
    """

    async def work(app: Holdfast) -> list[CancelResult]:
        answers: list[CancelResult] = []
        with interruptible() as interrupted:
            for job_id in ids:
                if interrupted:
                    break
                answers.append(await app.cancel(queue, job_id, cast(Running, running)))
        return answers

    answers = source.run(work)
    asked, ids = ids, ids[: len(answers)]
    if as_json:
        json_out(
            [{"queue": queue, "id": id, **msgspec.to_builtins(each)} for id, each in zip(ids, answers, strict=True)]
        )
    else:
        for job_id, answer in zip(ids, answers, strict=True):
            say(f"{queue}/{job_id}: {_outcome(answer, running)}")
    if len(answers) < len(asked):
        raise Halfway(
            f"interrupted: {len(answers)} of {_jobs(len(asked))} were asked; go on with: {command_again(without=ids)}"
        )
    if any(answer.reply is not Reply.OK or answer.runs_on for answer in answers):
        click.get_current_context().exit(1)


def _outcome(answer: CancelResult, running: str) -> str:
    """Return what `cancel` found and did, in words."""
    also = ", and so is its successor" if answer.successor else ""
    if answer.signalled:
        told = (
            "its process is killed, or its handler told to stop" if running == "kill" else "its handler is told to stop"
        )
        return told + (", and its successor is cancelled" if answer.successor else "")
    if answer.runs_on:
        left = "; its successor is cancelled" if answer.successor else ""
        return f"not cancelled: it runs; --running signal tells its handler to stop{left}"
    if answer.reply is Reply.OK:
        return f"cancelled{also}"
    if answer.state is None:
        return "not cancelled: there is no such job, or it has expired"
    return f"not cancelled: it is {answer.state} already"


@dataclass(frozen=True)
class JobSelection:
    """The jobs to requeue, and how."""

    ids: tuple[str, ...]
    queue: str | None
    task: str | None
    state: str | None
    id_prefix: str | None
    signature: str | None
    since: datetime | None
    until: datetime | None
    by: str
    limit: int
    dry_run: bool
    yes: bool
    as_json: bool

    @property
    def which(self) -> Filter:
        """The filter: finished jobs among the ids, or all failed ones that match."""
        times = {f"{self.by}_after": self.since, f"{self.by}_before": self.until}
        which = JobFilter(
            state=self.state, task=self.task, id_prefix=self.id_prefix, signature=self.signature,
            **cast(JobFilter, times),
        )  # fmt: skip
        return selected("requeue", which, queue=self.queue, ids=self.ids, states=to_requeue(self.ids))


@click.command(cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@acting_options
@click.option("--queue", metavar="NAME", shell_complete=complete_queues, help="Of this queue.")
@click.option("--task", metavar="NAME", shell_complete=complete_tasks, help="Of this task.")
@click.option(
    "--state",
    type=click.Choice(["failed", "completed", "cancelled"]),
    help="In this state; default: failed, or any with ids.",
)
@click.option("--id-prefix", metavar="TEXT", callback=as_prefix, help="With an id that begins with this.")
@click.option("--signature", metavar="HEX", help="That failed with errors of this signature.")
@click.option("--since", metavar="WHEN", callback=as_instant, help="That came since then: an instant, or 2h ago.")
@click.option("--until", metavar="WHEN", callback=as_instant, help="That came before: an instant, or 2h ago.")
@by_option
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_COUNT),
    default=1000,
    show_default=True,
    help="At most so many, newest first.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def requeue(source: Source, **given: OptionValue) -> None:
    """Run finished jobs anew.

    Those with these ids, or all failed ones that match. Many at once are counted first, and are requeued after a yes.

    \b
    Examples:
      holdfast requeue mail-1 mail-2 --queue mail
      holdfast requeue --queue mail --task send --dry-run
      holdfast requeue --signature 5f2d8a01c3b4e6f7 --since 1d
      holdfast requeue --queue mail --state failed --limit 100000 --yes
    """
    selection = JobSelection(**given)
    planned = source.run(lambda app: app.store.requeue(selection.which, limit=selection.limit, dry_run=True))
    if not selection.ids and planned and not selection.dry_run:
        _ask(selection, len(planned))
    done = planned if selection.dry_run else source.run(lambda app: _requeue(app, selection, planned))
    if selection.as_json:
        json_out({"dry_run": selection.dry_run, "jobs": [{"queue": q, "id": id, "run": run} for q, id, run in done]})
    else:
        _print(selection, done)
    missed = [job_id for job_id in selection.ids if job_id not in {id for _, id, _ in done}]
    if missed:
        raise NotDone(f"not requeued: {', '.join(missed)} (not there, not finished, or its id is in use again)")


def _ask(selection: JobSelection, count: int) -> None:
    if selection.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"this would requeue {_jobs(count)}: add --yes to do it, or --dry-run to see which")
    if not click.confirm(f"Requeue {_jobs(count)}?", err=True):
        raise NotDone("nothing was requeued")


async def _requeue(app: Holdfast, selection: JobSelection, planned: list[Run]) -> list[Run]:
    """Requeue the jobs that were planned, and no others, with a progress bar for many."""
    from .progress import ProgressLine

    done: list[Run] = []
    err = console(err=True)
    asked = 0
    with interruptible() as interrupted, ProgressLine(err, len(planned), disable=len(planned) <= CHUNK) as meter:
        for queue, group in itertools.groupby(sorted(planned), key=lambda job: job[0]):
            for chunk in _chunks([id for _, id, _ in group]):
                if interrupted:
                    raise _halfway(selection, done, asked, len(planned))
                which = msgspec.structs.replace(selection.which, queue=queue, ids=tuple(chunk))
                done += await app.store.requeue(which, limit=CHUNK)
                asked += len(chunk)
                meter.advance(len(chunk))
    return done


def _halfway(selection: JobSelection, done: list[Run], asked: int, planned: int) -> Halfway:
    """Return what was requeued when it was interrupted. Those are finished no more: the same command does the rest."""
    ids = [id for _, id, _ in done] if selection.ids else []
    again = command_again(without=ids)
    return Halfway(f"interrupted: requeued {_jobs(len(done))}, {planned - asked} are left; go on with: {again}")


def _chunks(ids: list[str]) -> list[list[str]]:
    return [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]


def _print(selection: JobSelection, done: list[Run]) -> None:
    if selection.dry_run or selection.ids:
        table(("queue", "id", ">run"), done)
    more = "; --limit raises the number" if not selection.ids and len(done) == selection.limit else ""
    click.echo(f"{'would requeue' if selection.dry_run else 'requeued'} {_jobs(len(done))}{more}")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


@click.command(cls=Command)
@click.argument("queue", shell_complete=complete_queues)
@click.argument("job_id", metavar="ID")
@acting_options
@json_option
def promote(source: Source, queue: str, job_id: str, as_json: bool) -> None:
    """Let a scheduled job run now.

    \b
    Example:
      holdfast promote mail mail-1 --app shop:app
    """
    reply = source.run(lambda app: _queue(app, queue).promote(job_id))
    _answer(reply, queue, job_id, "promoted", "only a scheduled job waits for its time", as_json)


@click.command(cls=Command)
@click.argument("queue", shell_complete=complete_queues)
@click.argument("job_id", metavar="ID")
@acting_options
@json_option
def delete(source: Source, queue: str, job_id: str, as_json: bool) -> None:
    """Remove a job and its result.

    In whatever state it is; a handler that runs is told to stop.

    \b
    Example:
      holdfast delete mail mail-1 --app shop:app
    """
    reply = source.run(lambda app: _queue(app, queue).delete(job_id))
    _answer(reply, queue, job_id, "deleted", "it cannot be deleted in its state", as_json)


def _queue(app: Holdfast, name: str) -> AnyQueue:
    return app.queue(name)


def _answer(reply: Reply, queue: str, job_id: str, done: str, wrong: str, as_json: bool) -> None:
    if as_json:
        json_out({"queue": queue, "id": job_id, "reply": reply})
    if reply is Reply.MISSING:
        raise NotDone(f"there is no job {queue}/{job_id}, or it has expired; `holdfast jobs` lists those there are")
    if reply is not Reply.OK:
        raise NotDone(f"{queue}/{job_id} is not {done}: {wrong}")
    if not as_json:
        say(f"{queue}/{job_id}: {done}")
