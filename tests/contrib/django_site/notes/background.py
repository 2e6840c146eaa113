"""Tasks of Django's own interface."""

from typing import Any

from .interface import task
from .models import Note


@task
def note(text: str) -> int:
    """Write a note."""
    return Note.objects.create(text=text).pk


@task()
async def anote(text: str) -> int:
    """Write a note, from a coroutine."""
    return (await Note.objects.acreate(text=text)).pk


@task(queue_name="slow", priority=7)
def give_back(*args: Any, **kwargs: Any) -> Any:
    """Return the arguments."""
    return [args, kwargs]


@task
def nested_error() -> None:
    """Raise an error whose argument is one."""
    raise ValueError(ValueError("inner"))


@task
def odd_result() -> object:
    """Return what JSON cannot hold."""
    return lambda: True


@task
def leave() -> None:
    """Raise what ends a process elsewhere."""
    raise SystemExit("a task that wants out")


@task(takes_context=True)
def about(context: Any, prefix: str) -> str:
    """Say what the context says."""
    return f"{prefix} {context.task_result.id} {context.attempt} {context.task_result.status}"


@task(backend="retrying", takes_context=True)
def second_time(context: Any) -> int:
    """Fail at the first attempt."""
    if context.attempt == 1:
        raise RuntimeError("the first time")
    return int(context.attempt)
