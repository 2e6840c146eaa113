"""Where a handler is: the import path by which another interpreter finds it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError
from ..task import Task
from .process.wire import Handler


def handler_of(task: Task[Any, Any]) -> Handler:
    """Return how a process finds what runs a task; raise when it could not."""
    place = place_of(task)
    found = _look(place)
    if isinstance(found, Task) and found.fn is task.fn:
        return Handler(place, max_result=task.max_result)
    if found is task.fn:
        return Handler(place, _by_name(task, "codec"), _by_name(task, "result_codec"), task.max_result)
    raise ConfigError(
        f"task {task.name!r}: {place} is not its handler, so that its process could not find it; "
        "give the function a name of its own in its module"
    )


def place_of(task: Task[Any, Any]) -> str:
    """Return `package.module:name` of a task's function; raise when it has none."""
    fn: Callable[..., Any] = task.fn
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    what = f"task {task.name!r}: executor={task.runs_in!r}"
    if not module or not name or "<" in name:
        raise ConfigError(f"{what} needs a function of a module, which its process can import; {fn!r} is local")
    if module == "__main__":
        raise ConfigError(
            f"{what} cannot run from __main__, which its process does not import: move the task to a module, "
            "and start the worker with `holdfast worker module:app`"
        )
    return f"{module}:{name}"


def _look(place: str) -> Any:
    module, _, name = place.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _by_name(task: Task[Any, Any], setting: str) -> str:
    name = task.setting(setting)
    if not isinstance(name, str):
        raise ConfigError(
            f"task {task.name!r}: {setting}={name!r} cannot be named to its process; "
            "make it a task of a module with @app.task"
        )
    return name
