"""burst: a worker that ends when nothing is left that it could do."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..core.state import State
from ..errors import ConfigError, StoreError
from ..registry import Registry
from ..store.contract import Filter, Store
from .pump import Pump

log = logging.getLogger("holdfast")
AT_ONCE = 100


async def until_empty(pump: Pump, store: Store, queues: Sequence[str], poll: float) -> None:
    """Return once nothing runs, nothing waits and nothing comes back, but for jobs that nobody here knows."""
    while True:
        await pump.empty.wait(poll)
        if pump.idle and not await _anything_left(pump, store, queues) and pump.idle:
            if pump.unknown:
                log.error("what is left is not for this worker: %s", "; ".join(sorted(pump.unknown)))
            return


async def _anything_left(pump: Pump, store: Store, queues: Sequence[str]) -> bool:
    try:
        if not await store.pending(queues):
            return False
        return not pump.unknown or any([await _has_known(store, pump.registry, queue) for queue in queues])
    except StoreError as error:
        log.warning("the store did not say whether anything is left, asking again: %s", error)
        return True


async def _has_known(store: Store, registry: Registry, queue: str) -> bool:
    """True when a job waits there, or, once started, for another attempt, that a handler of this worker could run."""
    which, cursor = Filter(queue=queue, states=(State.WAITING, State.SCHEDULED)), None
    while True:
        page = await store.jobs(which, limit=AT_ONCE, cursor=cursor)
        for job in page.jobs:
            comes = job.state is State.WAITING or job.counters.attempts > 0
            if comes and is_known(registry, queue, job.task):
                return True
        if page.cursor is None:
            return False
        cursor = page.cursor


def is_known(registry: Registry, queue: str, task: str | None) -> bool:
    """True when a job of this task has a handler here."""
    try:
        return registry.handler(queue, task) is not None
    except ConfigError:  # a handler that cannot be imported, of which the log has spoken
        return False
