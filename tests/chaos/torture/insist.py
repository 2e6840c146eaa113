"""What every process of the torture does when the store is in trouble: it asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast import StoreError

T = TypeVar("T")
PAUSE = 0.2


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Return what the call returns, however often the store must be asked. Every call may be repeated."""
    while True:
        try:
            return await call()
        except (StoreError, OSError):  # an OSError: this process is out of descriptors
            await asyncio.sleep(PAUSE)
