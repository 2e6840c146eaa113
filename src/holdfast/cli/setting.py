"""`holdfast settings`: every setting of a task, and the place that decided it."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from ..app import Holdfast
from ..errors import ConfigError
from ..find import load_app
from ..settings import Won
from ..task import Task
from .group import Command
from .show import json_out, table
from .source import json_option


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
        json_out([_form(task, won) for task, won in rows])
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


def _tasks(app: Holdfast, name: str | None) -> list[Task[Any, Any]]:
    known = app.registry.tasks
    if name is None:
        return list(known.values())
    if name not in known:
        raise ConfigError(f"there is no task {name!r}; known are {', '.join(known) or 'none'}")
    return [known[name]]


def _won(task: Task[Any, Any]) -> list[Won]:
    """Return the task's settings, with what the library decides by the kind of handler filled in."""
    policy = task.policy()
    found = []
    for won in task.settings():
        value = won.value
        if won.name == "retry":
            value = policy.retry
        elif won.name == "executor":
            value = task.runs_in
        found.append(Won(won.name, _plain(value), won.source))
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: a task or a codec by its name."""
    if isinstance(value, Task):
        return value.name
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return getattr(value, "name", None) or repr(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(each)}" for name, each in value.items())
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _form(task: Task[Any, Any], won: Won) -> dict[str, Any]:
    return {"task": task.name, "queue": task.queue, "setting": won.name, "value": won.value, "source": won.source}
