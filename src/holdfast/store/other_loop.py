"""Work for another event loop: the one in which a store was opened, when its caller runs in a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..errors import StoreClosed

T = TypeVar("T")
GONE = (
    "the event loop in which the store was opened has ended; open the app in a loop that lives as long as its callers"
)


async def done_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, done in another event loop; raise `StoreClosed` when that ends meanwhile."""
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise StoreClosed(GONE) from None
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise StoreClosed(GONE) from None  # the other loop cancelled it, and nobody did here
