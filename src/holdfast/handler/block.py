"""The block of `job.prepare()` or `job.complete()`: `async with` in a coroutine, `with` in a thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..errors import ConfigError, LeaseLost

T = TypeVar("T")
Made = Callable[[bool], AbstractAsyncContextManager[T]]
"""Makes the transaction; with True, for a thread, which waits while the event loop works."""
LOOK = 1.0
"""How often a thread looks whether the event loop that it waits for is still there."""


class Block(Generic[T]):
    """A transaction of the store's, which lives in the event loop that opened the store."""

    def __init__(self, what: str, loop: asyncio.AbstractEventLoop, made: Made[T]) -> None:
        self._what = what
        self._loop = loop
        self._made = made
        self._manager: AbstractAsyncContextManager[T] | None = None
        self._transaction: Any = None

    async def __aenter__(self) -> T:
        if asyncio.get_running_loop() is not self._loop:
            raise refused(f"`async with {self._what}` works in the worker's event loop; here write `with {self._what}`")
        self._manager = self._made(False)
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._manager is not None
        return await self._manager.__aexit__(kind, error, trace)

    def __enter__(self) -> T:
        self._refuse_in_loop()
        self._manager = self._made(True)
        transaction: T = self._wait(self._manager.__aenter__())
        self._transaction = transaction
        return transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._manager is not None
        try:
            hidden: bool | None = self._wait(self._manager.__aexit__(kind, error, trace))
        except _LoopGone:
            with suppress(Exception):
                self._transaction.connection.close()  # which rolls back; nothing else will any more
            raise
        return hidden

    def _refuse_in_loop(self) -> None:
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise refused(
                    f"`with {self._what}` would hold up the worker's event loop: write `async with` in an `async def` "
                    "handler, and leave a `def` handler in its thread (no executor='inline'; drain(threads=True))"
                )

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return what the event loop makes of it, as long as there is one."""
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise self._gone() from None
        while True:
            try:
                return future.result(LOOK)
            except TimeoutError:
                if future.done():
                    raise  # its own
                if self._loop.is_closed():
                    raise self._gone() from None
            except concurrent.futures.CancelledError:
                raise self._gone() from None

    def _gone(self) -> LeaseLost:
        return _LoopGone(f"{self._what}: the worker has ended, so nothing of this counts: its writes are undone")


def refused(message: str) -> ConfigError:
    """Return an error for what cannot be done here, however often it is tried."""
    error = ConfigError(message)
    vars(error)["retryable"] = False
    return error


class _LoopGone(LeaseLost):
    """The event loop in which the transaction lived is closed."""
