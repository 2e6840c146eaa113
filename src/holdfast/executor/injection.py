"""Injection: what a handler depends on is open while it runs, each resource once, and closed before its job is settled.

In an event loop everything is opened there. A `def` handler in a thread has its `def` resources in that thread, and
the `async def` ones, with all that they depend on, in the loop. An `async def` handler in a thread has all of them in
the loop of that thread.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from typing import Any

from ..app.resource import Resource, needed, show_to_attempt
from ..errors import ConfigError
from ..handler.job import Job
from .call import Callee, run_inline

InThread = Callable[[Callable[..., object], tuple[object, ...], dict[str, object]], Awaitable[object]]
"""Runs a function in a thread, and returns what it returns."""


async def call_handler(
    callee: Callee, job: Job, args: tuple[object, ...], kwargs: dict[str, object], in_thread: InThread | None = None
) -> object:
    """Return what a handler returns, called in this event loop or in a thread, with what it depends on."""
    if not callee.signature.supplied:
        return await (in_thread or run_inline)(callee.fn, args, kwargs)
    async with injected(callee, job, in_thread=in_thread is not None) as fn:
        return await (in_thread or run_inline)(fn, args, kwargs)


def has_loop_part(callee: Callee) -> bool:
    """Return whether a `def` handler in a thread depends on something that is opened in the event loop."""
    return any(each.opening.is_async for each in needed(callee.signature.supplied.values()))


def in_thread_alone(callee: Callee, job: Job) -> Callable[..., object]:
    """Return the function to be called in a thread for a `def` handler that has nothing in the event loop."""
    if not callee.signature.supplied:
        return callee.fn
    scope = AttemptScope(job, callee.signature.supplied)
    show_to_attempt(scope.values)
    return partial(scope.call, callee.fn, needed(callee.signature.supplied.values()))


@asynccontextmanager
async def injected(callee: Callee, job: Job, *, in_thread: bool) -> AsyncIterator[Callable[..., object]]:
    """A block in which everything is open that belongs in this event loop; it has the function to be called."""
    scope = AttemptScope(job, callee.signature.supplied)
    resources = needed(callee.signature.supplied.values())
    own_loop = in_thread and inspect.iscoroutinefunction(callee.fn)
    here = [] if own_loop else _in_loop(resources) if in_thread else resources
    show_to_attempt(scope.values)
    async with AsyncExitStack() as stack:
        await scope.open(here, stack)
        rest = [each for each in resources if each not in here]
        yield partial(scope.run if own_loop else scope.call, callee.fn, rest)


def _in_loop(resources: Sequence[Resource[Any]]) -> list[Resource[Any]]:
    """Return those that are opened in an event loop, with those on which they depend."""
    return needed(each for each in resources if each.opening.is_async)


class AttemptScope:
    """What is open for one attempt."""

    def __init__(self, job: Job, needs: Mapping[str, object]) -> None:
        self._job = job
        self._needs = needs
        self.values: dict[Resource[Any], Any] = {}

    async def open(self, resources: Sequence[Resource[Any]], stack: AsyncExitStack) -> None:
        """Open these for as long as the stack."""
        for each in resources:
            self.values[each] = await each.opening.enter(stack, **self._arguments(each.needs))

    def _arguments(self, needs: Mapping[str, object]) -> dict[str, Any]:
        return {name: self._value(source) for name, source in needs.items()}

    def _value(self, source: object) -> Any:
        if not isinstance(source, Resource):
            return self._job
        return self.values[source] if source in self.values else source()

    def call(self, fn: Callable[..., object], rest: Sequence[Resource[Any]], *args: object, **kwargs: object) -> object:
        """Return what a handler returns, with the rest of its resources open in this thread."""
        with ExitStack() as stack:
            for each in rest:
                self.values[each] = each.opening.enter_here(stack, **self._arguments(each.needs))
            return fn(*args, **kwargs, **self._arguments(self._needs))

    async def run(
        self, fn: Callable[..., object], rest: Sequence[Resource[Any]], *args: object, **kwargs: object
    ) -> object:
        """Return what an `async def` handler returns, with the rest of its resources open in this event loop."""
        async with AsyncExitStack() as stack:
            await self.open(rest, stack)
            return await run_inline(fn, args, {**kwargs, **self._arguments(self._needs)})


def refuse_overridden(callee: Callee, job: Job) -> None:
    """Raise for a handler in a process that depends on what is overridden in this one."""
    for source in callee.signature.supplied.values():
        if isinstance(source, Resource) and source.is_overridden:
            raise ConfigError(
                f"{job!r}: the resource {source.__name__!r} is overridden in this process, and its handler runs in "
                "another, which does not know of it: run the job with holdfast.testing.drain, which stays here"
            )
