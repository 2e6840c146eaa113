"""A resource: something that is opened once in each process that runs handlers, and closed at its end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, cast

from ..errors import ConfigError

T = TypeVar("T")
Opening = Callable[[], Iterator[T]] | Callable[[], AsyncIterator[T]]


class Resource(Generic[T]):
    """Made by `@app.resource`. Calling it in a handler returns what its function yielded in this process."""

    def __init__(self, fn: Opening[T]) -> None:
        if not (inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)):
            raise ConfigError(f"@app.resource takes a function that yields once, not {fn!r}")
        self._fn = fn
        self._stack: AsyncExitStack | None = None
        self._users = 0
        self._turn = asyncio.Lock()
        """A caller that comes while it is opened, or closed, waits for that."""
        self._value: T
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __repr__(self) -> str:
        return f"<Resource {self.__name__}>"

    def __call__(self) -> T:
        """Return what was opened."""
        if self._stack is None:
            raise ConfigError(
                f"the resource {self.__name__!r} is not open here: workers and their processes open it, "
                "sandboxes do not; elsewhere use `async with app.resources():`"
            )
        return self._value

    @property
    def place(self) -> str:
        """The import path by which a process finds it."""
        return f"{self._fn.__module__}:{self._fn.__qualname__}"

    async def open(self) -> None:
        """It can be called. May be nested."""
        async with self._turn:
            if self._users == 0:
                await self._open()
            self._users += 1

    async def _open(self) -> None:
        stack = AsyncExitStack()
        if inspect.isasyncgenfunction(self._fn):
            self._value = await stack.enter_async_context(asynccontextmanager(self._fn)())
        else:
            made = contextmanager(cast(Callable[[], Iterator[T]], self._fn))
            self._value = stack.enter_context(made())
        self._stack = stack

    async def close(self) -> None:
        """What was opened is closed, once every `open` has its `close`."""
        async with self._turn:
            self._users -= 1
            if self._users == 0 and self._stack is not None:
                stack, self._stack = self._stack, None
                await stack.aclose()


@asynccontextmanager
async def opened(resources: Sequence[Resource[Any]]) -> AsyncIterator[None]:
    """All resources are open in the block, in their order, and closed at its end, the last one first."""
    async with AsyncExitStack() as stack:
        for resource in resources:
            await resource.open()
            stack.push_async_callback(resource.close)
        yield
