"""Calls that a worker cannot start without: made until the store has done them, or the worker is told to stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import StoreError
from .trouble import FIRST_PAUSE, LONGEST_PAUSE

T = TypeVar("T")


class Stopped(Exception):
    """The worker was told to stop before a call was done."""


class Insistent:
    """Repeats calls while the store is in trouble, and gives up one that hangs once the worker is told to stop."""

    def __init__(self, trouble: Callable[[Exception], None], grace: float) -> None:
        self._trouble = trouble
        self._grace = grace
        self._told = asyncio.Event()

    def stop(self) -> None:
        """The worker is told to stop: a call that is under way has the grace to end."""
        self._told.set()

    async def do(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what the call returns, however often it had to be repeated; or raise `Stopped`."""
        pause = FIRST_PAUSE
        while not self._told.is_set():
            try:
                return await self._once(call)
            except StoreError as error:
                self._trouble(error)
            await self._rest(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)
        raise Stopped

    async def _once(self, call: Callable[[], Awaitable[T]]) -> T:
        """A call that has not ended when the grace is over hangs, perhaps behind somebody's lock: it is cancelled."""
        calling, hearing = asyncio.ensure_future(call()), asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait([calling, hearing], return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                await asyncio.wait([calling], timeout=self._grace)
        finally:
            hearing.cancel()
            if calling.cancel():
                await asyncio.wait([calling], timeout=self._grace)
        if self._told.is_set() and (not calling.done() or calling.cancelled()):
            raise Stopped
        return calling.result()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            return  # nobody told it to stop: it goes on
