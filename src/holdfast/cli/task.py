"""`holdfast tasks`: the policies that workers declared, and what operators set above them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ..app import Holdfast
from ..core.policy import ADJUSTABLE, Policy
from ..errors import ConfigError
from .group import Group
from .show import json_out, note, table
from .source import Source, json_option, source_options
from .value import pairs, plain, seconds

TASK_SETTINGS = tuple(name.removesuffix("_ms") for name in ADJUSTABLE)


@click.group(cls=Group, default="list")
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
        json_out({"tasks": [{"queue": queue, "task": task, **_form(policy)} for queue, task, policy in found]})
        return
    columns = ("queue", "task", *(f">{name}" for name in TASK_SETTINGS))
    table(columns, [(queue, task or "(plain)", *_form(policy).values()) for queue, task, policy in found])


def _form(policy: Policy) -> dict[str, Any]:
    timeout = None if policy.timeout_ms is None else policy.timeout_ms / 1000
    known = {**msgspec.structs.asdict(policy.retry), "timeout": timeout}
    return {name: known[name] for name in TASK_SETTINGS}


def _setting(name: str, text: str) -> Any:
    """Return the value of one setting; `none` is no limit."""
    if name not in TASK_SETTINGS:
        raise ConfigError(f"{name!r} is not a setting of a task; known are {', '.join(TASK_SETTINGS)}")
    if text.lower() == "none":
        return None
    return seconds(text, name) if name in ("timeout", "initial", "maximum") else plain(text)


@tasks.command("set")
@click.argument("queue")
@click.argument("task")
@click.argument("words", nargs=-1, metavar="SETTING=VALUE...")
@source_options
@click.option("--clear", multiple=True, metavar="SETTING", help="Back to what the workers declare; may be repeated.")
@json_option
def set_(source: Source, queue: str, task: str, words: tuple[str, ...], clear: tuple[str, ...], as_json: bool) -> None:
    """Change the policy of a task, above what its workers declare, for jobs already waiting too.

    Settings: failures, stalls, timeouts, releases (limits; `none` is no limit), initial, multiplier, maximum,
    jitter (backoff), timeout.

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
        note(f"no worker has declared a task {task!r} in queue {queue!r} yet")
    if as_json:
        json_out({"queue": queue, "task": task, **_form(policy)})
    else:
        table(("setting", "value"), list(_form(policy).items()))
