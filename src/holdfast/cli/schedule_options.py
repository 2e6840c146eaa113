"""The options of `holdfast schedules add` and `set`: when, by which rules, and what is enqueued."""

from __future__ import annotations

from datetime import datetime

import click

from ..app.app import Holdfast
from ..app.bulk import Call
from ..core.tick import At, Cron, Every, Spec
from ..errors import ConfigError
from .command import Function, GivenOptions
from .job.enqueue import bind_task, fitting_payload
from .parse import as_seconds

RULES = ("catch_up", "limit", "grace", "overlap")


def rule_options(command: Function) -> Function:
    """Add the options that say when, and by which rules, a schedule fires."""
    for option in (
        click.option("--cron", metavar="TEXT", help="Minute, hour, day, month, day of week; or @daily, '@every 5m'."),
        click.option("--tz", metavar="ZONE", help="The time zone of --cron; default: UTC."),
        click.option("--every", callback=as_seconds, metavar="S", help="Every so long (30, 10m, 2h)."),
        click.option("--at", metavar="TIME", help="Once: ISO 8601 with a zone (2027-01-01T00:00:00Z)."),
        click.option("--catch-up", type=click.Choice(["one", "skip", "all"]), help="What becomes of missed ticks."),
        click.option("--limit", type=int, help="With --catch-up all: at most so many; default: 100."),
        click.option("--grace", callback=as_seconds, metavar="S", help="With --catch-up skip: how late is not missed."),
        click.option(
            "--overlap", type=click.Choice(["allow", "skip", "successor"]), help="While an earlier job is unfinished."
        ),
        click.option("--args", metavar="JSON", help="Positional arguments, as a JSON array."),
    ):
        command = option(command)
    return command


def spec_of(given: GivenOptions) -> Spec | None:
    """Return the spec that --cron, --every or --at give."""
    cron, tz, every, at = (given.pop(name) for name in ("cron", "tz", "every", "at"))
    chosen = [name for name, value in (("--cron", cron), ("--every", every), ("--at", at)) if value is not None]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} exclude each other: give one")
    if tz is not None and cron is None:
        raise ConfigError("--tz is the time zone of --cron: give both")
    if cron is not None:
        return Cron(cron, tz or "UTC")
    if every is not None:
        return Every(every)
    return None if at is None else At(_instant(at))


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--at={text!r}: write ISO 8601 with a zone, such as 2027-01-01T00:00:00Z") from None
    if instant.tzinfo is None:
        raise ConfigError(f"--at={text!r} has no time zone: write {instant.isoformat()}Z for UTC, or +02:00 at its end")
    return instant


def call_of(app: Holdfast, words: tuple[str, ...], args: str | None, queue: str | None) -> Call[object]:
    """Return the job that each tick enqueues: a task with its arguments, or a plain payload for a queue."""
    if queue is not None and (not words or words[0] not in app.registry.tasks):
        target = app.queue(queue)
        return target.args(fitting_payload(target, words, args))
    task, positional, named = bind_task(app, words, args)
    if queue is not None and task.queue != queue:
        raise ConfigError(f"--queue {queue}: task {task.name!r} is in queue {task.queue!r}")
    return task.args(*positional, **named)


def rules_of(given: GivenOptions) -> GivenOptions:
    """Return the rules that were given."""
    return {rule: given[rule] for rule in RULES if given[rule] is not None}
