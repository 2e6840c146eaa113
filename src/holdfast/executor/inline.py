"""inline: the handler runs in the worker's own event loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


async def run_inline(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what the handler returns. A `def` handler holds up the loop for as long as it runs."""
    outcome = fn(*args, **kwargs)
    return await outcome if inspect.isawaitable(outcome) else outcome
