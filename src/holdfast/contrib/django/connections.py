"""Connections of Django's around handlers: those that are lost or too old are closed before and after each.

Django does that for each request. A handler that runs without it inherits the lost connection of its thread for good.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

Handler = Callable[..., Any]


def clean_connections() -> None:
    """Close the connections of this thread that are lost or too old; leave those alone in whose transaction it stands.

    A handler that runs inside a transaction is one that a test runs.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def with_clean_connections(fn: Handler) -> Handler:
    """Return a handler as executors call it: connections are cleaned in the thread in which it uses them."""
    return _awaited(fn) if inspect.iscoroutinefunction(fn) else _called(fn)


def _awaited(fn: Handler) -> Handler:
    clean = sync_to_async(clean_connections)  # in the one thread in which Django runs its queries for a loop

    @functools.wraps(fn)
    async def handler(*args: Any, **kwargs: Any) -> object:
        await clean()
        try:
            return await fn(*args, **kwargs)
        finally:
            await clean()

    return handler


def _called(fn: Handler) -> Handler:
    @functools.wraps(fn)
    def handler(*args: Any, **kwargs: Any) -> object:
        if in_loop():  # where Django refuses queries: of a test, or of `executor="inline"`
            return sync_to_async(cleaned, thread_sensitive=True)(*args, **kwargs)
        return cleaned(*args, **kwargs)

    def cleaned(*args: Any, **kwargs: Any) -> object:
        clean_connections()
        try:
            return fn(*args, **kwargs)
        finally:
            clean_connections()

    return handler


def in_loop() -> bool:
    """Return whether an event loop runs in this thread, where Django has no queries and no transactions."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
