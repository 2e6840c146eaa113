"""A store that is not open yet: the first call has it opened."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ..store.contract import Store

Open = Callable[[], Awaitable[object]]
AS_IT_IS = frozenset({"open", "close", "absent"})


class UnopenedStore:
    """Passes everything on to a store; its coroutine methods have it opened first."""

    def __init__(self, store: Store, open: Open) -> None:
        self._store, self._open = store, open

    def __getattr__(self, name: str) -> Any:  # whatever a store has: it is the contract's type that counts
        found = getattr(self._store, name)
        if name.startswith("_") or name in AS_IT_IS or not inspect.iscoroutinefunction(found):
            return found

        @functools.wraps(found)
        async def call(*args: Any, **kwargs: Any) -> object:
            await self._open()
            return await found(*args, **kwargs)

        return call
