"""What one task waits for, and goes on in the very callback that brings it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_NOTHING: Any = object()


class Prompt(Generic[T]):
    """A future for one task, which goes on within `tell`.

    A task that waits for a usual future goes on after the loop has gone round once more and asked the system what else
    is ready, which a caller with nothing else to do pays for in each round trip. A waiter that fails or is cancelled,
    or is told by another task, whose place it cannot take, goes on in that way, too.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_done", "_error", "_go_on", "_loop", "_result")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False
        self._done = False
        self._result: T = _NOTHING
        self._error: BaseException | None = None
        self._go_on: Callable[[Prompt[T]], object] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task that waits."""
        return self._loop

    @property
    def done(self) -> bool:
        """True when the waiter has been told, or fails, or is cancelled."""
        return self._done

    @property
    def failed(self) -> bool:
        """True when the waiter fails, or is cancelled."""
        return self._done and self._result is _NOTHING

    def tell(self, result: T) -> None:
        """Let the waiter go on with this, now or when it comes to wait; unless it has gone on before."""
        if self._done:
            return
        self._done, self._result = True, result
        go_on, self._go_on = self._go_on, None  # which leads to the waiter's task
        if go_on is None:
            return
        if asyncio.current_task(self._loop) is None:
            self._context.run(go_on, self)
        else:
            self._loop.call_soon(go_on, self, context=self._context)

    def fail(self, error: BaseException) -> None:
        """Raise this in the waiter, unless it has gone on before."""
        if self._done:
            return
        self._done, self._error = True, error
        if self._go_on is not None:
            self._loop.call_soon(self._go_on, self, context=self._context)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self._result if self._error is None else self.result()

    # --- what asyncio asks of whatever a task waits for

    def result(self) -> T:
        """Return what was told, or raise."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback leads back here
        return self._result

    def add_done_callback(self, go_on: Callable[[Prompt[T]], object], /, *, context: Context) -> None:
        """Have the waiter go on by this."""
        self._go_on, self._context = go_on, context

    def cancel(self, msg: object = None) -> bool:
        """Cancel the waiter; False when it goes on already."""
        if self._done:
            return False
        self.fail(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True
