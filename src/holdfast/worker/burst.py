"""burst: a worker that ends when nothing is left that it could do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ..app.registry import Registry
from ..core.state import State
from ..errors import ConfigError, StoreError
from ..store.contract import Filter, Store
from .parts import Parts

log = logging.getLogger("holdfast")
AT_ONCE = 100


async def until_empty(store: Store, parts: Parts, is_complete: Callable[[Sequence[str]], bool], poll: float) -> None:
    """Return once nothing runs, waits or comes back, but for jobs of unknown tasks.

    `is_complete` says whether these queues are all that are to be served.
    """
    pump = parts.pump
    while True:
        await pump.empty.wait(poll)
        queues = parts.current.session.queues if parts.current.session is not None else ()
        if pump.idle and not await _anything_left(store, parts, queues) and pump.idle and is_complete(queues):
            if problems := parts.unknown.problems:
                log.error("burst_left: what is left is not for this worker: %s", "; ".join(sorted(problems)))
            return


async def _anything_left(store: Store, parts: Parts, queues: Sequence[str]) -> bool:
    try:
        if not await store.pending(queues):
            return False
        registry = parts.runner.registry
        return not parts.unknown.problems or any([await _has_known(store, registry, queue) for queue in queues])
    except StoreError as error:
        log.warning("store_away: the store did not say whether anything is left, asking again: %s", error)
        return True


async def _has_known(store: Store, registry: Registry, queue: str) -> bool:
    """Return whether a job that this worker could run waits there, or is due for another attempt."""
    which, cursor = Filter(queue=queue, states=(State.WAITING, State.SCHEDULED)), None
    while True:
        page = await store.jobs(which, limit=AT_ONCE, cursor=cursor)
        for job in page.jobs:
            comes = job.state is State.WAITING or job.counters.attempts > 0
            if comes and _is_known(registry, queue, job.task):
                return True
        if page.cursor is None:
            return False
        cursor = page.cursor


def _is_known(registry: Registry, queue: str, task: str | None) -> bool:
    """Return whether a job of this task has a handler here."""
    try:
        return registry.handler(queue, task) is not None
    except ConfigError:  # a handler that cannot be imported, which is in the log
        return False
