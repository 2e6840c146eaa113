"""A lock for coroutines of several event loops: a store is closed in one loop while it is opened in another."""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class AnyLoopLock:
    """Held by one coroutine at a time, in the order in which they came; each waits in its own event loop."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            with self._guard:
                was_given = turn not in self._waiting
                if not was_given:
                    self._waiting.remove(turn)
            if was_given:
                self._pass_on()
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        with self._guard:
            while self._waiting:
                turn = self._waiting.popleft()
                try:
                    turn.get_loop().call_soon_threadsafe(_go_on, turn)
                except RuntimeError:  # its loop is closed, and nobody waits there any more
                    continue
                return
            self._held = False


def _go_on(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
