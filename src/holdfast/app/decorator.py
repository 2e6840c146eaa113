"""What `@app.task(...)` returns, typed by the function that it decorates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from ..handler.continuation import Continued
from ..handler.job import Job
from .task import AnyTask, Task

P = ParamSpec("P")
R = TypeVar("R")


class _Nobody:
    """No handler asks for this, so that one whose first parameter accepts it takes anything, and is not given a Job."""


class Decorator:
    """Makes a function a task."""

    def __init__(self, make: Callable[[Callable[..., Any]], AnyTask]) -> None:
        self._make = make

    @overload
    def __call__(
        self, fn: Callable[Concatenate[_Nobody, P], Awaitable[Continued[R]]]
    ) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Awaitable[Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[_Nobody, P], Awaitable[R | Continued[R]]]
    ) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Awaitable[R | Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R | Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nobody, P], Continued[R]]) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Continued[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Continued[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nobody, P], R | Continued[R]]) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], R | Continued[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Continued[R]]) -> Task[P, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> AnyTask:
        return self._make(fn)
