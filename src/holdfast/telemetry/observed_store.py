"""A store whose calls are observed: how long each took, and what its reply tells besides."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, cast

from ..core.limit import QueueSettings
from ..core.policy import Policy
from ..store.contract import Expired, Fired, Reaped, Store, Turn
from .observer import Observer, Observers, StoreCall

log = logging.getLogger("holdfast")
SLOW = 1.0
"""After so many seconds an answer to a call of `PROMPT` is told of: the store hung, or was away and came back."""
PROMPT = frozenset({"settle_and_claim", "extend"})
"""Calls on which all jobs of a worker wait, and that take milliseconds."""
UNTIMED = frozenset({"open", "close", "absent"})
"""Calls that are no work of the store's."""
TOLD = frozenset({*PROMPT, "reap", "expire", "put_schedule", "policies"})
"""Calls whose replies tell something besides, or how late they came."""


def observed(store: Store, observers: Observers) -> Store:
    """Return the store, of whose calls the observers are told; they are timed where one of them wants to know."""
    tell = observers.store_call if observers.hears("store_call") else None
    return cast(Store, ObservedStore(store, tell, _Replies(observers).of))


class ObservedStore:
    """Passes everything on to a store; its coroutine methods are timed where `tell` is to be told, and looked at."""

    def __init__(self, store: Store, tell: Callable[[StoreCall], object] | None, look: Callable[..., None]) -> None:
        self._store, self._tell, self._look = store, tell, look

    def __getattr__(self, name: str) -> Any:  # whatever a store has: it is the contract's type that counts
        found = getattr(self._store, name)
        if name.startswith("_") or name in UNTIMED or not callable(found):
            return found
        if not inspect.iscoroutinefunction(found):
            pass  # there is no call to the store in it
        elif self._tell is not None:
            found = functools.wraps(found)(self._timed(name, self._tell))
        elif name in TOLD:
            found = functools.wraps(found)(self._looked_at(name))
        setattr(self, name, found)  # so that the next call finds it without asking here
        return found

    def twin(self) -> Store:
        """Return a store for another event loop, whose calls are told in this one."""
        tell, loop = self._tell, asyncio.get_running_loop()
        if tell is None:
            return self._store.twin()

        def pass_on(call: StoreCall) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, call)

        return cast(Store, ObservedStore(self._store.twin(), pass_on, _nothing))

    def _looked_at(self, name: str) -> Callable[..., Awaitable[object]]:
        store, look = self._store, self._look

        async def looked_at(*args: Any, **kwargs: Any) -> object:
            began = perf_counter()
            reply = await getattr(store, name)(*args, **kwargs)
            _note_slow(name, perf_counter() - began)
            look(name, args, reply)
            return reply

        return looked_at

    def _timed(self, name: str, tell: Callable[[StoreCall], object]) -> Callable[..., Awaitable[object]]:
        store, look = self._store, self._look

        async def timed(*args: Any, **kwargs: Any) -> object:
            began = perf_counter()
            try:
                reply = await getattr(store, name)(*args, **kwargs)
            except Exception as error:
                tell(StoreCall(name, perf_counter() - began, error=error))
                raise
            seconds = perf_counter() - began
            _note_slow(name, seconds)
            if isinstance(reply, Turn):
                tell(StoreCall(name, seconds, len(args[1]), len(reply.claimed)))
            else:
                tell(StoreCall(name, seconds))
            look(name, args, reply)
            return reply

        return timed


def _note_slow(name: str, seconds: float) -> None:
    if seconds >= SLOW and name in PROMPT:
        log.warning(
            "store_slow: %s was answered after %.1f s: the store hung or was away, or this loop was held up",
            name,
            seconds,
        )


def _nothing(name: str, args: tuple[Any, ...], reply: object) -> None:
    """Look at no reply."""


class _Replies:
    """Tells an observer what the replies of a store say beside what was asked."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._settings: dict[str, QueueSettings] = {}
        self._told: Mapping[str, QueueSettings] | None = None
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
        elif isinstance(reply, Fired):
            if reply.answers:
                self._observer.fired(args[0].queue, args[1], reply.answers)
        elif name == "policies":
            self._note_policies(args[0], cast(Mapping[str, Policy], reply))

    def _note_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        if settings is self._told:  # a store may have a thousand queues to tell of, and say that nothing changed
            return
        self._told = settings
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
