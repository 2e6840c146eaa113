"""The abort signal: how a handler hears that it should stop, and why."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from ..errors import Aborted
from ..store.contract import Abort


class Signal:
    """Cooperative and typed. It fires once, with a reason; it may be asked from any thread."""

    __slots__ = ("_event", "_loop", "_reason", "_thread_event")

    def __init__(self) -> None:
        self._reason: Abort | None = None
        self._event: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_event: threading.Event | None = None

    @property
    def aborted(self) -> bool:
        """True once the handler should stop."""
        return self._reason is not None

    @property
    def reason(self) -> Abort | None:
        """Why: any of `Abort` but `killed`, which a handler hears as `cancelled`."""
        return self._reason

    def check(self) -> None:
        """Raise `Aborted` if the signal has fired."""
        if self._reason is not None:
            raise Aborted(self._reason)

    async def wait(self) -> Abort:
        """Return the reason, once there is one."""
        if self._event is None:
            self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        if self._reason is None:
            await self._event.wait()
        assert self._reason is not None
        return self._reason

    def wait_in_thread(self, seconds: float | None = None) -> bool:
        """Wait in a `def` handler; return True as soon as the signal fires, False when the time is over."""
        if self._thread_event is None:
            self._thread_event = threading.Event()
        if self._reason is not None:
            return True
        return self._thread_event.wait(seconds)

    def fire(self, reason: Abort) -> bool:
        """The handler can know that it should stop. False when it could already."""
        if self._reason is not None:
            return False
        self._reason = reason
        if self._thread_event is not None:
            self._thread_event.set()
        if self._event is not None and self._loop is not None:
            with suppress(RuntimeError):  # the handler's own loop is closed: nothing waits any more
                self._loop.call_soon_threadsafe(self._event.set)
        return True
