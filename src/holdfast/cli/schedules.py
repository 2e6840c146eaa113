"""`holdfast schedules`: what is enqueued when, added, changed, paused, triggered and removed live."""

from __future__ import annotations

from collections.abc import Callable

import click

from ..app.app import Holdfast
from ..core.schedule import Schedule
from ..errors import ConfigError
from ..json import form as json_form
from ..json.form import JsonObject, iso
from ..schedule import CHANGEABLE
from .command import CommandGroup, OptionValue, Source, acting_options, json_option, source_options
from .output import json_out, local_time, say, table
from .schedule_options import call_of, rule_options, rules_of, spec_of

SHOWN_TICKS = 5


@click.group(cls=CommandGroup, default="list")
def schedules() -> None:
    """List schedules and change them live. Alone, it lists.

    \b
    Examples:
      holdfast schedules --app shop:app
      holdfast schedules add nightly report --cron '0 3 * * *' --tz Europe/Berlin --app shop:app
      holdfast schedules pause nightly
    """


queue_option = click.option("--queue", metavar="NAME", help="Its queue, where several have one of that name.")


def command_on_one(work: Callable[..., None]) -> click.Command:
    """Make a command of the group that takes a schedule's name, and its queue where that is needed."""
    return schedules.command()(click.argument("name")(acting_options(queue_option(json_option(work)))))


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

    async def work(app: Holdfast) -> tuple[list[Schedule], list[JsonObject]]:
        found = await app.schedules.list(queue)
        return found, [json_form.schedule(app, each) for each in found]

    found, shown = source.run(work)
    if as_json:
        json_out({"schedules": shown})
    else:
        table(("schedule", "queue", "task", "when", "next", "?last", ">?fired"), [_row(each) for each in found])


def _row(found: Schedule) -> tuple[object, ...]:
    star = "*" if found.declared is not None and found.changes else ""
    due = "paused" if found.paused else local_time(found.next_at_ms) or "over"
    task, last = found.task or "(plain)", local_time(found.last_at_ms)
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

    async def work(app: Holdfast) -> JsonObject:
        return _detail(app, await app.schedules.get(name, queue=queue))

    _print(source.run(work), as_json)


def _detail(app: Holdfast, found: Schedule) -> JsonObject:
    return json_form.schedule_detail(app, found, SHOWN_TICKS)


def _print(detail: JsonObject, as_json: bool) -> None:
    if as_json:
        json_out(detail)
        return
    rows = [(field, value) for field, value in detail.items() if field not in ("spec", "ticks")]
    table(("", ""), [*rows, *(("tick", tick) for tick in detail["ticks"])], header=False)


@schedules.command()
@click.argument("name")
@click.argument("words", nargs=-1, metavar="TASK [NAME=VALUE | JSON]...")
@acting_options
@rule_options
@click.option("--queue", metavar="NAME", help="A plain payload for this queue, in place of a task.")
@json_option
def add(
    source: Source,
    name: str,
    words: tuple[str, ...],
    args: str | None,
    queue: str | None,
    as_json: bool,
    **given: OptionValue,
) -> None:
    """Add a schedule. Arguments are written as for `holdfast enqueue`.

    \b
    Examples:
      holdfast schedules add nightly report --cron '0 3 * * *' --tz Europe/Berlin --app shop:app
      holdfast schedules add pulse send to=ann@example.com --every 10m --overlap skip --app shop:app
      holdfast schedules add once --queue mail --at 2027-01-01T00:00:00Z to=ann --url sqlite:///jobs.db
    """
    spec = spec_of(given)
    if spec is None:
        raise ConfigError(f"schedules add {name}: when? Give --cron, --every or --at")
    rules = rules_of(given)

    async def work(app: Holdfast) -> JsonObject:
        return _detail(app, await app.schedules.add(name, spec, call_of(app, words, args, queue), **rules))

    _print(source.run(work, create=True), as_json)


@schedules.command("set")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[TASK [NAME=VALUE | JSON]...]")
@acting_options
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
    **given: OptionValue,
) -> None:
    """Change a schedule, above what the code declares, until it is cleared.

    \b
    Examples:
      holdfast schedules set nightly --cron '30 4 * * *' --tz Europe/Berlin
      holdfast schedules set nightly report region=north --app shop:app
      holdfast schedules set nightly --clear spec
    """
    spec = spec_of(given)
    rules = rules_of(given)
    if args is not None and not words:
        raise ConfigError(f"schedules set {name}: --args are the arguments of a task: name it before them")
    if spec is None and not rules and not words and not clear:
        raise ConfigError(f"schedules set {name}: give what is to change, such as --cron, or --clear WHAT")

    async def work(app: Holdfast) -> JsonObject:
        found = await app.schedules.get(name, queue=queue)
        plain_queue = found.queue if found.task is None else None  # a schedule of a task stays one
        call = call_of(app, words, args, plain_queue) if words else None
        changed = await app.schedules.change(name, queue=found.queue, spec=spec, call=call, clear=clear, **rules)
        return _detail(app, changed)

    _print(source.run(work), as_json)


@command_on_one
def pause(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Fire nothing until `resume`. What it has enqueued goes on.

    \b
    Example:
      holdfast schedules pause nightly --app shop:app
    """

    async def work(app: Holdfast) -> Schedule:
        return await app.schedules.pause(name, queue=queue)

    _told(source.run(work), "paused", as_json)


@command_on_one
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
        due = f", next {local_time(found.next_at_ms)}" if found.next_at_ms else ""
        say(f"{found.name}: {word}{due}")


@command_on_one
def trigger(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Enqueue one job of a schedule now; its ticks go on as before.

    \b
    Example:
      holdfast schedules trigger nightly --app shop:app
    """

    async def work(app: Holdfast) -> JsonObject:
        handle = await app.schedules.trigger(name, queue=queue)
        return {
            "name": name, "status": handle.status, "queue": handle.queue, "id": handle.id, "run": handle.run,
            "state": handle.state,
        }  # fmt: skip

    answer = source.run(work)
    if as_json:
        json_out(answer)
    else:
        which = f"{answer['queue']}/{answer['id']} run {answer['run']}"
        say(f"{answer['status']}: {which} ({answer['state']})")


@command_on_one
def remove(source: Source, name: str, queue: str | None, as_json: bool) -> None:
    """Remove a schedule. One that the code declares comes back with the next worker: pause that.

    \b
    Example:
      holdfast schedules remove nightly --app shop:app
    """

    async def work(app: Holdfast) -> Schedule | None:
        return await app.schedules.remove(name, queue=queue)

    found = source.run(work)
    declared = found is not None and found.declared is not None
    if as_json:
        json_out({"name": name, "removed": True, "declared": declared})
    else:
        comes_back = "; the code declares it, so that the next worker brings it back" if declared else ""
        say(f"{name}: removed{comes_back}")
