"""A function that opens something for as long as a block: it yields once, or returns; `def` or `async def`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Opening(Generic[T]):
    """Calls such a function, and ends it with a stack. An error that leaves the block is told to it, and stays one."""

    def __init__(self, fn: Callable[..., object]) -> None:
        self.fn = fn
        self.is_async = inspect.isasyncgenfunction(fn) or inspect.iscoroutinefunction(fn)
        """Whether it needs an event loop."""
        self.yields = inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)

    async def enter(self, stack: AsyncExitStack, *args: object, **given: object) -> T:
        """Return what it yields or returns with these arguments."""
        if not inspect.isasyncgenfunction(self.fn):
            made = self.enter_here(stack, *args, **given)
            return await cast(Awaitable[T], made) if self.is_async else made
        block = asynccontextmanager(self.fn)(*args, **given)
        found: T = await block.__aenter__()

        async def leave(*error: Any) -> None:
            await block.__aexit__(*error)  # what it answers does not count: it cannot make a failure a success

        stack.push_async_exit(leave)
        return found

    def enter_here(self, stack: ExitStack | AsyncExitStack, *args: object, **given: object) -> T:
        """Do the same with no event loop; not for one that needs it."""
        if not inspect.isgeneratorfunction(self.fn):
            return cast(T, self.fn(*args, **given))
        block = contextmanager(self.fn)(*args, **given)
        found: T = block.__enter__()

        def leave(*error: Any) -> None:
            block.__exit__(*error)

        stack.push(leave)
        return found
