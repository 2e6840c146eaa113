"""Upkeep: jobs of vanished workers are reaped, and what has expired is removed, in bounded batches."""

from __future__ import annotations

import asyncio
import logging
import random

from ..core.state import State
from ..errors import StoreError
from ..hook import Happening, Hooks
from ..store.contract import Corrupt, Session, Store

log = logging.getLogger("holdfast")
REAPED_AT_ONCE = 100
EXPIRED_AT_ONCE = 1000


async def keep_up(store: Store, session: Session, interval: float, hooks: Hooks) -> None:
    """Every queue of the session is looked after, every `interval` seconds, for ever."""
    while True:
        for queue in session.queues:
            try:
                await tidy(store, queue, session, hooks)
            except StoreError as error:
                log.warning("upkeep of queue %s failed, the next round may not: %s", queue, error)
            except Exception:
                log.exception("upkeep of queue %s failed, the next round may not", queue)
        await asyncio.sleep(interval * random.uniform(0.8, 1.2))


async def tidy(store: Store, queue: str, session: Session, hooks: Hooks) -> None:
    """One queue holds no job of a vanished worker and nothing that has expired."""
    while True:
        reaped = await store.reap(queue, REAPED_AT_ONCE, session.id)
        if reaped.returned or reaped.failed:
            log.warning(
                "queue %s: %d jobs of vanished workers %s are back, %d failed",
                queue, reaped.returned, ", ".join(reaped.sessions), reaped.failed,
            )  # fmt: skip
            detail = f"{reaped.returned} back, {reaped.failed} failed"
            hooks.tell(Happening(name="reap", queue=queue, detail=detail))
        for each in reaped.corrupt:
            _tell(each, hooks)
        if not reaped.more:
            break
    expired = EXPIRED_AT_ONCE
    while expired == EXPIRED_AT_ONCE:
        expired = await store.expire(queue, EXPIRED_AT_ONCE)
        if expired and hooks.wanted("expire"):
            hooks.tell(Happening(name="expire", queue=queue, detail=f"{expired} finished runs were removed"))


def _tell(corrupt: Corrupt, hooks: Hooks) -> None:
    """It is known, once, that a record could not be read and was set aside: of a job, as its `fail`."""
    what = f"{corrupt.kind} {corrupt.queue}/{corrupt.id}"
    log.error("corrupt_record: %s (run %d) was set aside: %s", what, corrupt.run, corrupt.detail)
    is_job = corrupt.kind == "job"
    hooks.tell(
        Happening(
            name="fail" if is_job else "worker_error", queue=corrupt.queue, id=corrupt.id,
            run=corrupt.run if is_job else None, state=State.FAILED if is_job else None,
            detail=f"CorruptRecord: {corrupt.kind}: {corrupt.detail}",
        )
    )  # fmt: skip
