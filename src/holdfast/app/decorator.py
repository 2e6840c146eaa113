"""`@app.task`, bare or with options: makes a function a task, typed by that function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

import msgspec

from ..core.limit import Rate
from ..core.word import check_text
from ..errors import ConfigError
from ..handler.continuation import Continued
from ..handler.job import Job
from .options import TaskOptions, known_options
from .registry import Registry, check_queue_name
from .resource import Resource, ResourceScope, handler_signature
from .settings import Layer, layer
from .task import AnyTask, Task

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_QUEUE = "default"


class _Nobody:
    """No handler asks for this, so that one whose first parameter accepts it takes anything, and is not given a Job."""


class TaskChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What `@app.task(...)` was told."""

    queue: str | None = None
    name: str | None = None
    rate: Rate | None = None
    """With it the task has a queue of its own."""
    layer: Layer = Layer("task", {})


class Decorator:
    """Makes a function a task: `@app.task`, or `@app.task(queue="mail")`, which returns one that knows its options."""

    def __init__(self, registry: Registry, choices: TaskChoices | None = None) -> None:
        self._registry = registry
        self._choices = choices or TaskChoices()

    @overload
    def __call__(
        self, fn: Callable[Concatenate[_Nobody, P], Awaitable[Continued[R]]], /
    ) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Awaitable[Continued[R]]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[Continued[R]]], /) -> Task[P, R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[_Nobody, P], Awaitable[R | Continued[R]]], /
    ) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Awaitable[R | Continued[R]]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R | Continued[R]]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nobody, P], Continued[R]], /) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Continued[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Continued[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nobody, P], R | Continued[R]], /) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], R | Continued[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Continued[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        queue: str | None = None,
        name: str | None = None,
        rate: Rate | None = None,
        **options: Unpack[TaskOptions],
    ) -> Decorator: ...
    def __call__(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        queue: str | None = None,
        name: str | None = None,
        rate: Rate | None = None,
        **options: Unpack[TaskOptions],
    ) -> AnyTask | Decorator:
        """Make a function a task of the app; with options alone, return what does."""
        chosen = self._choices
        if queue is not None or name is not None or rate is not None or options or fn is None:
            own = layer("task", **known_options("@app.task()", options, TaskOptions))
            chosen = TaskChoices(queue=queue, name=name, rate=rate, layer=own)
        return Decorator(self._registry, chosen) if fn is None else self._make(fn, chosen)

    def _make(self, fn: Callable[..., Any], chosen: TaskChoices) -> AnyTask:
        if not callable(fn):
            raise ConfigError(f"@app.task takes a function, not {fn!r}; its options have names: @app.task(queue=...)")
        name, rate = chosen.name, chosen.rate
        known = str(getattr(fn, "__name__", type(fn).__name__)) if name is None else name
        check_text(known, "name", "a task's name")
        queue = (DEFAULT_QUEUE if rate is None else known) if chosen.queue is None else chosen.queue
        signature = handler_signature(fn)
        task: AnyTask = Task(self._registry, fn, known, check_queue_name(queue), chosen.layer, signature)
        self._registry.add(task, rate)
        return task


class ResourceDecorator:
    """Makes a function a resource: `@app.resource`, or `@app.resource(scope="attempt")`."""

    def __init__(self, registry: Registry, scope: ResourceScope = "process") -> None:
        self._registry = registry
        self._scope = scope

    @overload
    def __call__(self, fn: Callable[..., AsyncIterator[R]], /) -> Resource[R]: ...
    @overload
    def __call__(self, fn: Callable[..., Iterator[R]], /) -> Resource[R]: ...
    @overload
    def __call__(self, fn: Callable[..., Awaitable[R]], /) -> Resource[R]: ...
    @overload
    def __call__(self, fn: Callable[..., R], /) -> Resource[R]: ...
    @overload
    def __call__(self, /, *, scope: ResourceScope = "process") -> ResourceDecorator: ...
    def __call__(
        self, fn: Callable[..., object] | None = None, /, *, scope: ResourceScope | None = None
    ) -> Resource[Any] | ResourceDecorator:
        """Make a function, which yields or returns it, a resource of the app; with a scope alone, return what does."""
        if fn is None:
            return ResourceDecorator(self._registry, scope or "process")
        made: Resource[Any] = Resource(fn, scope or self._scope)
        self._registry.resources.append(made)
        return made
