"""A store whose calls are observed: how long each took, and what its reply tells besides."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, cast

from ..core.limit import QueueSettings
from ..core.policy import Policy
from ..store.contract import Expired, Reaped, Store, Turn
from .observer import Observer, StoreCall

UNTIMED = frozenset({"open", "close", "absent"})
"""Calls that are no work of the store's."""


def observed(store: Store, observer: Observer) -> Store:
    """Return the store, of whose calls the observer is told."""
    return cast(Store, ObservedStore(store, observer.store_call, _Replies(observer).of))


class ObservedStore:
    """Passes everything on to a store; its coroutine methods are timed."""

    def __init__(self, store: Store, tell: Callable[[StoreCall], object], look: Callable[..., None]) -> None:
        self._store, self._tell, self._look = store, tell, look

    def __getattr__(self, name: str) -> Any:  # whatever a store has: it is the contract's type that counts
        found = getattr(self._store, name)
        if name.startswith("_") or name in UNTIMED or not inspect.iscoroutinefunction(found):
            return found
        timed = functools.wraps(found)(self._timed(name))
        setattr(self, name, timed)  # so that the next call finds it without asking here
        return timed

    def twin(self) -> Store:
        """Return a store for another event loop, whose calls are told in this one."""
        tell, loop = self._tell, asyncio.get_running_loop()

        def pass_on(call: StoreCall) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, call)

        return cast(Store, ObservedStore(self._store.twin(), pass_on, _nothing))

    def _timed(self, name: str) -> Callable[..., Awaitable[object]]:
        store, tell, look = self._store, self._tell, self._look

        async def timed(*args: Any, **kwargs: Any) -> object:
            began = perf_counter()
            try:
                reply = await getattr(store, name)(*args, **kwargs)
            except Exception as error:
                tell(StoreCall(name, perf_counter() - began, error=error))
                raise
            seconds = perf_counter() - began
            if isinstance(reply, Turn):
                tell(StoreCall(name, seconds, len(args[1]), len(reply.claimed)))
            else:
                tell(StoreCall(name, seconds))
            look(name, args, reply)
            return reply

        return timed


def _nothing(name: str, args: tuple[Any, ...], reply: object) -> None:
    """Look at no reply."""


class _Replies:
    """Tells an observer what the replies of a store say beside what was asked."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._settings: dict[str, QueueSettings] = {}
        self._policies: dict[str, Mapping[str, Policy]] = {}

    def of(self, name: str, args: tuple[Any, ...], reply: object) -> None:
        """Look at the reply to a call with these arguments."""
        if isinstance(reply, Turn):
            if reply.settings:
                self._note_settings(reply.settings)
        elif isinstance(reply, Reaped):
            if reply.jobs or reply.returned or reply.failed:
                self._observer.reaped(args[0], reply)
        elif isinstance(reply, Expired):
            if reply.runs:
                self._observer.expired(args[0], reply)
        elif name == "policies":
            self._note_policies(args[0], cast(Mapping[str, Policy], reply))

    def _note_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        for queue, after in settings.items():
            before = self._settings.get(queue)
            if before is after:
                continue
            self._settings[queue] = after
            if before is not None and before != after:
                self._observer.settings_changed(queue, before, after)

    def _note_policies(self, queue: str, policies: Mapping[str, Policy]) -> None:
        known, self._policies[queue] = self._policies.get(queue, {}), policies
        for task, after in policies.items():
            before = known.get(task)
            if before is not None and before != after:
                self._observer.policy_changed(queue, task, before, after)
