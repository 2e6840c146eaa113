"""`holdfast tasks`, `settings` and `declare`: the policies of tasks, who decided each, and what the code says."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from ..app.app import Holdfast
from ..app.loader import load_app
from ..app.settings import Resolved
from ..app.task import AnyTask, Task
from ..core.policy import Policy
from ..core.word import check_words
from ..errors import ConfigError
from ..json import form as json_form
from ..json.form import TASK_SETTINGS, JsonObject
from ..store import shown
from .command import Command, CommandGroup, Source, acting_options, json_option, source_options
from .complete import complete_queues
from .output import json_out, note_unknown_queues, say, say_note, table
from .parse import as_names, json_or_text, pairs, seconds

ALWAYS = ("failures", "initial", "maximum", "timeout")
"""The settings that are shown in the narrowest terminal."""


@click.group(cls=CommandGroup, default="list")
def tasks() -> None:
    """List tasks with the policy in force, and change it live. Alone, it lists.

    \b
    Examples:
      holdfast tasks --app shop:app
      holdfast tasks set mail send failures=10 timeout=1m
    """


@tasks.command("list")
@source_options
@json_option
def list_(source: Source, as_json: bool) -> None:
    """List the tasks that workers have declared, with the limits and times in force.

    \b
    Examples:
      holdfast tasks --url sqlite:///jobs.db
      holdfast tasks list --json
    """

    async def work(app: Holdfast) -> list[tuple[str, str, Policy]]:
        names = [queue.name for queue in await app.queues()]
        return [(name, task, policy) for name in names for task, policy in (await app.queue(name).policies()).items()]

    found = source.run(work)
    if as_json:
        json_out(
            {"tasks": [{"queue": queue, "task": task, **json_form.policy(policy)} for queue, task, policy in found]}
        )
        return
    settings = (f">{name}" if name in ALWAYS else f">?{name}" for name in TASK_SETTINGS)
    columns = ("queue", "task", *settings)
    table(columns, [(queue, task or "(plain)", *json_form.policy(policy).values()) for queue, task, policy in found])


def _setting(name: str, text: str) -> Any:
    """Return the value of one setting; `none` is no limit."""
    if name not in TASK_SETTINGS:
        raise ConfigError(f"{name!r} is not a setting of a task; known are {', '.join(TASK_SETTINGS)}")
    if text.lower() == "none":
        return None
    return seconds(text, name) if name in ("timeout", "initial", "maximum") else json_or_text(text)


@tasks.command("set")
@click.argument("queue", shell_complete=complete_queues)
@click.argument("task")
@click.argument("words", nargs=-1, metavar="SETTING=VALUE...")
@acting_options
@click.option("--clear", multiple=True, metavar="SETTING", help="Back to what the workers declare; may be repeated.")
@json_option
def set_(source: Source, queue: str, task: str, words: tuple[str, ...], clear: tuple[str, ...], as_json: bool) -> None:
    """Change the policy of a task, above what its workers declare, for jobs already waiting too.

    Settings: failures, stalls, timeouts, releases, attempts, snoozes (limits; `none` is no limit), initial, multiplier,
    maximum, jitter (backoff), timeout.

    \b
    Examples:
      holdfast tasks set mail send failures=10 maximum=1h
      holdfast tasks set mail send --clear failures
    """
    given = {name: _setting(name, text) for name, text in pairs(words).items()}
    if not given and not clear:
        raise ConfigError(f"tasks set {queue} {task}: give SETTING=VALUE or --clear SETTING")
    for name in clear:
        _setting(name, "none")

    async def work(app: Holdfast) -> tuple[bool, Policy]:
        known = task in await app.queue(queue).policies()
        return known, await app.queue(queue).adjust(task, clear=clear, **given)

    known, policy = source.run(work)
    if not known:
        say_note(f"no worker has declared a task {task!r} in queue {queue!r} yet")
    if as_json:
        json_out({"queue": queue, "task": task, **json_form.policy(policy)})
    else:
        table(("setting", "value"), list(json_form.policy(policy).items()))


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[MODULE:APP] [TASK]")
@json_option
def settings(words: tuple[str, ...], as_json: bool) -> None:
    """Show settings and which layer won.

    Every setting of the app's tasks, with its value. The nearest layer wins: job (what a caller sets), task,
    queue, app, library. What an operator sets on a queue stands in the store: see `holdfast queues`.

    \b
    Examples:
      holdfast settings shop:app
      holdfast settings shop:app send --json
      HOLDFAST_APP=shop:app holdfast settings send
    """
    target, name = _words(words)
    app = load_app(target)
    rows = [(task, won) for task in _tasks(app, name) for won in _won(task)]
    if as_json:
        json_out([_setting_fields(task, won) for task, won in rows])
        return
    table(
        ("task", "queue", "setting", "value", "decided by"),
        [(task.name, task.queue, won.name, _text(won.value), won.source) for task, won in rows],
    )


def _words(words: tuple[str, ...]) -> tuple[str, str | None]:
    """Return the app and the task. With HOLDFAST_APP set, one word without a colon is a task."""
    default = os.environ.get("HOLDFAST_APP")
    if len(words) > 2:
        raise ConfigError(f"settings takes an app and a task, not {len(words)} words")
    if len(words) == 2:
        return words[0], words[1]
    if default and (not words or ":" not in words[0]):
        return default, words[0] if words else None
    if not words:
        raise ConfigError("which app? Write holdfast settings module:app, or set HOLDFAST_APP=module:app")
    return words[0], None


def _tasks(app: Holdfast, name: str | None) -> list[AnyTask]:
    known = app.registry.tasks
    if name is None:
        return list(known.values())
    if name not in known:
        raise ConfigError(f"there is no task {name!r}; known are {', '.join(known) or 'none'}")
    return [known[name]]


def _won(task: AnyTask) -> list[Resolved]:
    """Return the task's settings, with what the library decides by the kind of handler filled in."""
    policy = task.policy()
    found = []
    for won in task.settings():
        value = won.value
        if won.name == "retry":
            value = policy.retry
        elif won.name == "executor":
            value = task.runs_in
        found.append(Resolved(won.name, _plain(value), won.source))
    return found


def _plain(value: object) -> object:
    """Return a value as JSON can hold it: a task or a codec by its name."""
    if isinstance(value, Task):
        return value.name
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return getattr(value, "name", None) or repr(value)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(each)}" for name, each in value.items())
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _setting_fields(task: AnyTask, won: Resolved) -> JsonObject:
    return {"task": task.name, "queue": task.queue, "setting": won.name, "value": won.value, "source": won.source}


@click.command(cls=Command)
@click.argument("target", metavar="MODULE:APP", envvar="HOLDFAST_APP")
@click.option("--queues", callback=as_names, metavar="A,B", help="Of these queues; default: all that the app declares.")
@click.option("--force", is_flag=True, help="Also where the same version was declared with other values.")
@json_option
def declare(target: str, queues: tuple[str, ...] | None, force: bool, as_json: bool) -> None:
    """Declare an app's queues, tasks and schedules in its store, as its workers do when they start.

    Before a deploy it shows whether the workers would be refused; with --force it settles what refuses them: the values
    of this code hold, and workers that still have others under the same version are refused when they start next.

    \b
    Examples:
      holdfast declare shop:app
      holdfast declare shop:app --queues mail --force
    """
    app = load_app(target)
    served = queues or tuple(app.registry.queues)
    for name in served:
        check_words(queue=name)
    note_unknown_queues(queues, app.registry.queues)
    with app.sync:
        app.sync(_declared(app, served, force))
    if as_json:
        json_out({"url": shown(app.store.url), "version": app.registry.version, "queues": list(served)})
    else:
        named = ", ".join(served) or "no queue"
        say(f"version {app.registry.version} of {named} is declared on {shown(app.store.url)}")


async def _declared(app: Holdfast, queues: tuple[str, ...], force: bool) -> None:
    await app.store.declare(app.registry.declarations(queues, overrules=force))
    await app.schedules.declare(queues, overrules=force)
