"""Upkeep: jobs of vanished workers are reaped, and what has expired is removed, in bounded batches."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ..core.state import State
from ..errors import StoreError
from ..hook import Happening, Hooks
from ..store.contract import Claimed, Corrupt, Expired, Session, Store

log = logging.getLogger("holdfast")
T = TypeVar("T")
REAPED_AT_ONCE = 100
EXPIRED_AT_ONCE = 1000
STEP = 100
"""After so many claims in a queue it is swept, however long the interval is: they leave some hundred events."""
PACE = 0.1
"""Seconds between two such sweeps at least, so that they cost little at any rate."""
SHORTEST, LONGEST = 0.1, 6.0
"""Seconds between two looks for vanished workers. Whoever comes with a short lease is noticed after the longest."""


class Upkeep:
    """Looks after every queue of a session: for the vanished as their own leases want it, and sweeps at each interval.

    What has expired is swept in step with the work that is done there, too.
    """

    def __init__(self, store: Store, session: Session, interval: float, hooks: Hooks) -> None:
        self._store = store
        self._session = session
        self._interval = interval
        self._hooks = hooks
        self._claims: Counter[str] = Counter()
        self._busy = asyncio.Event()

    def note(self, jobs: Iterable[Claimed]) -> None:
        """Jobs were claimed; whatever they leave in the store has to go at the same rate."""
        self._claims.update(job.lease.queue for job in jobs)
        if any(count >= STEP for count in self._claims.values()):
            self._busy.set()

    async def run(self) -> None:
        """Every queue is looked after, for ever."""
        sweep_at = 0.0
        while True:
            leases = [await self._safely(queue, self._reap) for queue in self._session.queues]
            if time.monotonic() >= sweep_at:
                for queue in self._session.queues:
                    await self._safely(queue, self._sweep)
                sweep_at = time.monotonic() + self._interval * random.uniform(0.8, 1.2)
            until = min(sweep_at, time.monotonic() + until_next_look(leases))
            while (left := until - time.monotonic()) > 0:
                await self._keep_step(left)

    async def _keep_step(self, seconds: float) -> None:
        """The queues in which much was done are swept, as soon as there is one, or the time is over."""
        try:
            await asyncio.wait_for(self._busy.wait(), seconds)
        except TimeoutError:
            return
        await asyncio.sleep(PACE)
        self._busy.clear()
        for queue in [queue for queue, count in self._claims.items() if count >= STEP]:
            await self._safely(queue, self._sweep)

    async def _reap(self, queue: str) -> int | None:
        return await reap_all(self._store, queue, self._session, self._hooks)

    async def _sweep(self, queue: str) -> None:
        del self._claims[queue]
        await sweep(self._store, queue, self._hooks)

    async def _safely(self, queue: str, work: Callable[[str], Awaitable[T]]) -> T | None:
        try:
            return await work(queue)
        except StoreError as error:
            log.warning("upkeep of queue %s failed, the next round may not: %s", queue, error)
        except Exception:
            log.exception("upkeep of queue %s failed, the next round may not", queue)
        return None


def until_next_look(leases: Iterable[int | None]) -> float:
    """Return the seconds until the next look for vanished workers, by when the next lease of each queue is over.

    It is at half of what is left: a store that hears of nobody for most of a lease thinks that it was away.
    """
    halves = [ms / 2000 for ms in leases if ms is not None]
    return max(SHORTEST, min([LONGEST, *halves]))


async def tidy(store: Store, queue: str, session: Session, hooks: Hooks) -> None:
    """One queue holds no job of a vanished worker and nothing that has expired."""
    await reap_all(store, queue, session, hooks)
    await sweep(store, queue, hooks)


async def reap_all(store: Store, queue: str, session: Session, hooks: Hooks) -> int | None:
    """The queue holds no job of a vanished worker. Return in how many milliseconds the next one may have vanished."""
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
            return reaped.next_ms


async def sweep(store: Store, queue: str, hooks: Hooks) -> None:
    """Nothing that has expired is left, whatever amount of it came since the last time; and who loses jobs is told."""
    while True:
        expired = await store.expire(queue, EXPIRED_AT_ONCE)
        if expired.failed_by_age or expired.failed_by_count:
            log.warning("queue %s: %s; see its retention", queue, _letters(expired))
        if expired.runs and hooks.wanted("expire"):
            hooks.tell(Happening(name="expire", queue=queue, detail=_told(expired)))
        if not expired.more:
            return


def _letters(expired: Expired) -> str:
    parts = [(expired.failed_by_age, "for their age"), (expired.failed_by_count, "for their number")]
    return "failed jobs were removed: " + ", ".join(f"{count} {why}" for count, why in parts if count)


def _told(expired: Expired) -> str:
    told = f"{expired.runs} finished runs were removed"
    return f"{told}; {_letters(expired)}" if expired.failed_by_age or expired.failed_by_count else told


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
