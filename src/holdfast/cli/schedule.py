"""`holdfast schedules`: what is enqueued when, added, changed, paused, triggered and removed live."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from ..app import Holdfast
from ..core.schedule import Schedule
from ..core.tick import At, Cron, Every, Spec
from ..errors import ConfigError
from ..schedule import CHANGEABLE
from ..task import Call
from . import form
from .enqueue import bound, payload_of
from .group import Group
from .show import clock, iso, json_out, table
from .source import Source, json_option, source_options
from .value import as_seconds

Function = Callable[..., Any]
SHOWN_TICKS = 5
RULES = ("catch_up", "limit", "grace", "overlap")


@click.group(cls=Group, default="list")
def schedules() -> None:
    """List schedules and change them live. Alone, it lists.

    \b
    Examples:
      holdfast schedules --app shop:app
      holdfast schedules add nightly report --cron '0 3 * * *' --tz Europe/Berlin --app shop:app
      holdfast schedules pause nightly
    """


queue_option = click.option("--queue", metavar="NAME", help="Its queue, where several have one of that name.")


def rule_options(command: Function) -> Function:
    """The command takes when, and by which rules, a schedule fires."""
    for option in (
        click.option("--cron", metavar="TEXT", help="Five fields: minute, hour, day of month, month, day of week."),
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


def _spec(given: dict[str, Any]) -> Spec | None:
    """Return what --cron, --every or --at say."""
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
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--at={text!r}: write ISO 8601 with a zone, such as 2027-01-01T00:00:00Z") from None


def _call(app: Holdfast, words: tuple[str, ...], args: str | None, queue: str | None) -> Call[Any]:
    """Return the job that each tick enqueues: a task with its arguments, or a plain payload for a queue."""
    if queue is not None and (not words or words[0] not in app.registry.tasks):
        return app.queue(queue).args(payload_of(words, args))
    task, positional, named = bound(app, words, args)
    if queue is not None and task.queue != queue:
        raise ConfigError(f"--queue {queue}: task {task.name!r} is in queue {task.queue!r}")
    return task.args(*positional, **named)


@schedules.command("list")
@source_options
@click.option("--queue", metavar="NAME", help="Those of one queue.")
@json_option
def list_(source: Source, queue: str | None, as_json: bool) -> None:
    """List schedules.

    What each enqueues, when it is due next, and what it last fired (* changed by an operator).

    \b
    Examples:
      holdfast schedules --url sqlite:///jobs.db
      holdfast schedules list --queue mail --json
    """

    async def work(app: Holdfast) -> tuple[list[Schedule], list[dict[str, Any]]]:
        found = await app.schedules.list(queue)
        return found, [form.schedule(app, each) for each in found]

    found, shown = source.run(work)
    if as_json:
        json_out({"schedules": shown})
    else:
        table(("schedule", "queue", "task", "when", "next", "last", ">fired"), [_row(each) for each in found])


def _row(found: Schedule) -> tuple[Any, ...]:
    star = "*" if found.declared is not None and found.changes else ""
    due = "paused" if found.paused else clock(found.next_at_ms) or "over"
    task, last = found.task or "(plain)", clock(found.last_at_ms)
    return found.name, found.queue, task, f"{found.spec}{star}", due, last, found.fired


@schedules.command()
@click.argument("name")
@source_options
@queue_option
@json_option
def show(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Show one schedule, with its next five ticks.

    \b
    Example:
      holdfast schedules show nightly --app shop:app
    """

    async def work(app: Holdfast) -> dict[str, Any]:
        return _detail(app, await app.schedules.get(name, queue=queue))

    _print(source.run(work), as_json)


def _detail(app: Holdfast, found: Schedule) -> dict[str, Any]:
    ticks = [iso(round(tick.timestamp() * 1000)) for tick in found.upcoming(SHOWN_TICKS)]
    return {**form.schedule(app, found), "when": str(found.spec), "ticks": ticks}


def _print(detail: dict[str, Any], as_json: bool) -> None:
    if as_json:
        json_out(detail)
        return
    rows = [(field, value) for field, value in detail.items() if field not in ("spec", "ticks")]
    table(("", ""), [*rows, *(("tick", tick) for tick in detail["ticks"])], header=False)


@schedules.command()
@click.argument("name")
@click.argument("words", nargs=-1, metavar="TASK [NAME=VALUE | JSON]...")
@source_options
@rule_options
@click.option("--queue", metavar="NAME", help="A plain payload for this queue, in place of a task.")
@json_option
def add(
    source: Source, name: str, words: tuple[str, ...], args: str | None, queue: str | None, as_json: bool, **given: Any
) -> None:
    """Add a schedule. Arguments are written as for `holdfast enqueue`.

    \b
    Examples:
      holdfast schedules add nightly report --cron '0 3 * * *' --tz Europe/Berlin --app shop:app
      holdfast schedules add pulse send to=ann@example.com --every 10m --overlap skip --app shop:app
      holdfast schedules add once --queue mail --at 2027-01-01T00:00:00Z to=ann --url sqlite:///jobs.db
    """
    spec = _spec(given)
    if spec is None:
        raise ConfigError(f"schedules add {name}: when? Give --cron, --every or --at")
    rules = {rule: given[rule] for rule in RULES if given[rule] is not None}

    async def work(app: Holdfast) -> dict[str, Any]:
        return _detail(app, await app.schedules.add(name, spec, _call(app, words, args, queue), **rules))

    _print(source.run(work, create=True), as_json)


@schedules.command("set")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[TASK [NAME=VALUE | JSON]...]")
@source_options
@rule_options
@queue_option
@click.option(
    "--clear", multiple=True, metavar="WHAT", help=f"Back to what the code declares ({', '.join(CHANGEABLE)})."
)
@json_option
def set_(
    source: Source,
    name: str,
    words: tuple[str, ...],
    args: str | None,
    queue: str | None,
    clear: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Change a schedule, above what the code declares, until it is cleared.

    \b
    Examples:
      holdfast schedules set nightly --cron '30 4 * * *' --tz Europe/Berlin
      holdfast schedules set nightly report region=north --app shop:app
      holdfast schedules set nightly --clear spec
    """
    spec = _spec(given)
    rules = {rule: given[rule] for rule in RULES if given[rule] is not None}
    if spec is None and not rules and not words and not clear:
        raise ConfigError(f"schedules set {name}: give what is to change, such as --cron, or --clear WHAT")

    async def work(app: Holdfast) -> dict[str, Any]:
        place = (await app.schedules.get(name, queue=queue)).queue
        call = _call(app, words, args, place) if words else None
        changed = await app.schedules.change(name, queue=place, spec=spec, call=call, clear=clear, **rules)
        return _detail(app, changed)

    _print(source.run(work), as_json)


@schedules.command()
@click.argument("name")
@source_options
@queue_option
@json_option
def pause(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Fire nothing until `resume`. What it has enqueued goes on.

    \b
    Example:
      holdfast schedules pause nightly --app shop:app
    """

    async def work(app: Holdfast) -> Schedule:
        return await app.schedules.pause(name, queue=queue)

    _told(source.run(work), "paused", as_json)


@schedules.command()
@click.argument("name")
@source_options
@queue_option
@json_option
def resume(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Fire again, from the next tick on.

    \b
    Example:
      holdfast schedules resume nightly --app shop:app
    """

    async def work(app: Holdfast) -> Schedule:
        return await app.schedules.resume(name, queue=queue)

    _told(source.run(work), "resumed", as_json)


def _told(found: Schedule, word: str, as_json: bool) -> None:
    if as_json:
        json_out({"queue": found.queue, "name": found.name, "paused": found.paused, "next_at": iso(found.next_at_ms)})
    else:
        click.echo(f"{found.name}: {word}" + (f", next {clock(found.next_at_ms)}" if found.next_at_ms else ""))


@schedules.command()
@click.argument("name")
@source_options
@queue_option
@json_option
def trigger(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Enqueue one job of a schedule now; its ticks go on as before.

    \b
    Example:
      holdfast schedules trigger nightly --app shop:app
    """

    async def work(app: Holdfast) -> dict[str, Any]:
        handle = await app.schedules.trigger(name, queue=queue)
        return {
            "name": name, "status": handle.status, "queue": handle.queue, "id": handle.id, "run": handle.run,
            "state": handle.state,
        }  # fmt: skip

    answer = source.run(work)
    if as_json:
        json_out(answer)
    else:
        click.echo(f"{answer['status']}: {answer['queue']}/{answer['id']} run {answer['run']} ({answer['state']})")


@schedules.command()
@click.argument("name")
@source_options
@queue_option
@json_option
def remove(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Remove a schedule. One that the code declares comes back with the next worker: pause that.

    \b
    Example:
      holdfast schedules remove nightly --app shop:app
    """

    async def work(app: Holdfast) -> Schedule:
        found = await app.schedules.get(name, queue=queue)
        await app.schedules.remove(name, queue=found.queue)
        return found

    found = source.run(work)
    if as_json:
        json_out({"queue": found.queue, "name": name, "removed": True})
    else:
        comes_back = "; the code declares it, so that the next worker brings it back" if found.declared else ""
        click.echo(f"{name}: removed{comes_back}")
