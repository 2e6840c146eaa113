"""A handler that fails on purpose."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from ..app.registry import Registry
from ..app.task import AnyTask
from ..errors import ConfigError


@contextmanager
def failing(task: AnyTask, error: BaseException, *, times: int | None = None) -> Iterator[None]:
    """Let the task's handler raise this error in place of running, within the block; with `times`, only so often."""
    known = cast(Registry, task.registry).tasks[task.name]  # where workers find it, whatever options this one has
    if known.in_process:
        raise ConfigError(f"failing({task.name}): its handler runs in a process of its own, out of reach from here")
    own = known.fn
    known.fn = _raising(own, error, times)
    try:
        yield
    finally:
        known.fn = own


def _raising(own: Callable[..., Any], error: BaseException, times: int | None) -> Callable[..., Any]:
    """Return a function of the same kind that raises the error so often, and is the handler itself afterwards."""
    left = [times]

    def check() -> None:
        if left[0] is None or left[0] > 0:
            left[0] = None if left[0] is None else left[0] - 1
            raise error

    if not inspect.iscoroutinefunction(own):

        def raising(*args: Any, **kwargs: Any) -> Any:
            check()
            return own(*args, **kwargs)

        return raising

    async def raising_when_awaited(*args: Any, **kwargs: Any) -> Any:
        check()
        return await own(*args, **kwargs)

    return raising_when_awaited
