"""The import path by which another interpreter finds a handler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..app.plain import plain_signature
from ..app.task import Task
from ..codec import Signature
from ..errors import ConfigError
from .process.frames import HandlerPath


def handler_path(task: Task[Any, Any]) -> HandlerPath:
    """Return how a process finds what runs a task; raise when it could not."""
    place = import_path(task)
    found = _look(place)
    if isinstance(found, Task) and found.fn is task.fn:
        return HandlerPath(place, max_result=task.max_result)
    if found is task.fn:
        return HandlerPath(
            place, _by_name(task, "codec"), _by_name(task, "result_codec"), task.max_result,
            *_types(task, plain_signature(task.fn)),
        )  # fmt: skip
    raise ConfigError(
        f"task {task.name!r}: {place} is not its handler, so that its process could not find it; "
        "give the function a name of its own in its module"
    )


def import_path(task: Task[Any, Any]) -> str:
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


def _types(task: Task[Any, Any], own: Signature) -> tuple[str | None, str | None]:
    """Return where the types of payload and result are, unless the function's own annotations say them."""
    payload = None if own.payload == task.signature.payload else _type_place(task, "payload", task.signature.payload)
    result = None if own.returns == task.signature.returns else _type_place(task, "result", task.signature.returns)
    return payload, result


def _type_place(task: Task[Any, Any], name: str, kind: Any) -> str:
    place = f"{getattr(kind, '__module__', None)}:{getattr(kind, '__qualname__', None)}"
    if _look(place) is not kind:
        raise ConfigError(
            f"queue {task.queue!r}: {name}={kind!r} cannot be named to the process of its handler, being no class "
            "of a module: annotate the handler with it instead"
        )
    return place


def _by_name(task: Task[Any, Any], setting: str) -> str:
    name = task.setting(setting)
    if not isinstance(name, str):
        raise ConfigError(
            f"task {task.name!r}: {setting}={name!r} cannot be named to its process; "
            "make it a task of a module with @app.task"
        )
    return name
