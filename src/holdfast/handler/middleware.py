"""Middleware: what wraps each attempt, onion-wise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..errors import ConfigError
from .job import Job

Next = Callable[[], Awaitable[Any]]
"""Goes on: to the next middleware, at last to the handler. It returns what that returns, and raises what it raises."""
Middleware = Callable[[Job, Next], Awaitable[Any]]
"""`async def around(job, next): return await next()`. What it returns or raises is how the attempt ends."""


def check_middleware(given: object) -> tuple[Middleware, ...]:
    """Return the middleware of a worker, or raise when it can be none."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(callable(each) for each in given):
        raise ConfigError(f"middleware={given!r}: a list of functions of (job, next)")
    return tuple(given)
