"""Upkeep: reap the jobs of vanished workers and remove what has expired, in bounded batches."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ...app.hooks import HookEvent, Hooks
from ...core.bound import EXPIRED_AT_ONCE, REAPED_AT_ONCE
from ...core.state import State
from ...errors import StoreError
from ...store.contract import Corrupt, Expired, ReapedJob, Session, Store
from .rounds import Round, Rounds

log = logging.getLogger("holdfast")
T = TypeVar("T")
STEP = 100
"""After so many claims in a queue it is swept, however long the interval is: they leave some hundred events."""
PACE = 0.1
"""Seconds between two such sweeps at least, so that they cost little at any rate."""
SHORTEST, LONGEST = 0.1, 6.0
"""Seconds between two looks for vanished workers. One with a short lease that is new is noticed after the longest."""


class ClaimCounts:
    """How many jobs were claimed in each queue since it was last swept."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """What claimed jobs leave in the store has to be removed at the same rate."""
        self.many = asyncio.Event()
        """Set once some queue is due for a sweep."""

    def add(self, queues: Iterable[str]) -> None:
        """Count jobs that were claimed, by the queue of each."""
        counts = self.counts
        for queue in queues:
            counts[queue] = counts.get(queue, 0) + 1
        if max(counts.values(), default=0) >= STEP:
            self.many.set()

    def due(self) -> list[str]:
        """Return the queues that are due for a sweep."""
        return [queue for queue, count in self.counts.items() if count >= STEP]

    def swept(self, queue: str) -> None:
        """Begin to count anew, as the queue is swept."""
        self.counts.pop(queue, None)


class Upkeep:
    """Reap the jobs of vanished workers in some queues as often as their leases want, and sweep at each interval.

    Queues are also swept in step with the jobs that are claimed there (`claims`). `own` is the caller's own session.
    `learn` is called for each queue at each interval, to read what operators have set.
    """

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        interval: float,
        hooks: Hooks,
        *,
        own: str | None = None,
        claims: ClaimCounts | None = None,
        learn: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self.queues = queues
        self._own = own
        self._interval = interval
        self._hooks = hooks
        self.counts: Counter[str] = Counter()
        """What it did: `returned` and `failed` jobs of vanished workers, `expired` runs."""
        self._learn = learn
        self._claims = claims or ClaimCounts()
        self._rounds = Rounds(store, own)
        self._over = False

    def stop(self) -> None:
        """End after the present round."""
        self._over = True
        self._claims.many.set()

    async def run(self) -> None:
        """Look after every queue until told to stop."""
        sweep_at = 0.0
        while not self._over:
            sweeps = time.monotonic() >= sweep_at
            round = await self._next_round(sweeps)
            leases = [round.next_ms, *[await self._safely(queue, self.reap) for queue in round.reap]]
            if sweeps:
                for queue in round.expire:
                    await self._safely(queue, self.sweep)
                if self._learn is not None:
                    for queue in round.learn:
                        await self._safely(queue, self._learn)
                sweep_at = time.monotonic() + self._interval * random.uniform(0.8, 1.2)
            until = min(sweep_at, time.monotonic() + until_next_look(leases))
            while not self._over and (left := until - time.monotonic()) > 0:
                await self._keep_step(left)

    async def _next_round(self, sweeps: bool) -> Round:
        try:
            return await self._rounds.next(self.queues, sweeps)
        except StoreError as error:
            log.warning("upkeep_failed: this round looks after some queues only; the next tries again: %s", error)
        except Exception:
            log.exception("upkeep_failed: this round looks after some queues only; the next tries again")
        return self._rounds.in_turn(self.queues)

    async def _keep_step(self, seconds: float) -> None:
        """Sweep the queues in which many jobs were claimed, as soon as there is one; return when the time is over."""
        try:
            await asyncio.wait_for(self._claims.many.wait(), seconds)
        except TimeoutError:
            return
        if self._over:
            return
        await asyncio.sleep(PACE)
        self._claims.many.clear()
        for queue in self._claims.due():
            await self._safely(queue, self.sweep)

    async def reap(self, queue: str) -> int | None:
        """Reap the jobs of vanished workers; return in how many milliseconds the next worker may have vanished."""
        return await reap_all(self._store, queue, self._own, self._hooks, self.counts)

    async def sweep(self, queue: str) -> None:
        """Remove all that has expired in the queue."""
        self._claims.swept(queue)
        await expire_all(self._store, queue, self._hooks, self.counts)

    async def _safely(self, queue: str, work: Callable[[str], Awaitable[T]]) -> T | None:
        try:
            return await work(queue)
        except StoreError as error:
            log.warning("upkeep_failed: queue %s; the next round tries again: %s", queue, error)
        except Exception:
            log.exception("upkeep_failed: queue %s; the next round tries again", queue)
        return None


def until_next_look(leases: Iterable[int | None]) -> float:
    """Return the seconds until the next look for vanished workers, by when the next lease of each queue is over.

    It is at half of what is left: a store that hears no session for most of a lease takes it that it was away.
    """
    halves = [ms / 2000 for ms in leases if ms is not None]
    return max(SHORTEST, min([LONGEST, *halves]))


async def tidy(store: Store, queue: str, session: Session, hooks: Hooks) -> None:
    """Reap and sweep one queue completely."""
    await reap_all(store, queue, session.id, hooks, Counter())
    await expire_all(store, queue, hooks, Counter())


async def reap_all(store: Store, queue: str, own: str | None, hooks: Hooks, counts: Counter[str]) -> int | None:
    """Reap all jobs of vanished workers; return in how many milliseconds the next worker may have vanished."""
    while True:
        reaped = await store.reap(queue, REAPED_AT_ONCE, own)
        counts.update(returned=reaped.returned, failed=reaped.failed)
        if reaped.returned or reaped.failed:
            log.warning(
                "reaped: queue %s: %d jobs of vanished workers %s are back, %d failed",
                queue, reaped.returned, ", ".join(reaped.sessions), reaped.failed,
            )  # fmt: skip
        for job in reaped.jobs if "reap" in hooks.wanted else ():
            _tell_reaped(job, own, hooks)
        for each in reaped.corrupt:
            _tell_corrupt(each, hooks)
        if not reaped.more:
            return reaped.next_ms


async def expire_all(store: Store, queue: str, hooks: Hooks, counts: Counter[str]) -> None:
    """Remove all that has expired in the queue; log which failed jobs were among it, and tell hooks."""
    while True:
        expired = await store.expire(queue, EXPIRED_AT_ONCE)
        counts.update(expired=expired.runs)
        if expired.failed_by_age or expired.failed_by_count:
            log.warning("expired: queue %s: %s; see its retention", queue, _failed_jobs(expired))
        if expired.runs and "expire" in hooks.wanted:
            hooks.tell(HookEvent(name="expire", queue=queue, detail=_summary(expired)))
        if not expired.more:
            return


def _tell_reaped(job: ReapedJob, worker: str | None, hooks: Hooks) -> None:
    lease = job.lease
    hooks.tell(
        HookEvent(
            name="reap", queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt, task=job.task,
            state=job.state, worker=worker, counters=job.counters, ran=job.ran_ms / 1000, detail="its worker vanished",
        )
    )  # fmt: skip


def _failed_jobs(expired: Expired) -> str:
    parts = [(expired.failed_by_age, "for their age"), (expired.failed_by_count, "for their number")]
    return "failed jobs were removed: " + ", ".join(f"{count} {why}" for count, why in parts if count)


def _summary(expired: Expired) -> str:
    told = f"{expired.runs} finished runs were removed"
    return f"{told}; {_failed_jobs(expired)}" if expired.failed_by_age or expired.failed_by_count else told


def _tell_corrupt(corrupt: Corrupt, hooks: Hooks) -> None:
    """Log that a record could not be read and was set aside, and tell hooks: of a job, as its `fail`."""
    what = f"{corrupt.kind} {corrupt.queue}/{corrupt.id}"
    log.error("corrupt_record: %s (run %d) was set aside: %s", what, corrupt.run, corrupt.detail)
    is_job = corrupt.kind == "job"
    hooks.tell(
        HookEvent(
            name="fail" if is_job else "worker_error", queue=corrupt.queue, id=corrupt.id,
            run=corrupt.run if is_job else None, state=State.FAILED if is_job else None,
            detail=f"CorruptRecord: {corrupt.kind}: {corrupt.detail}",
        )
    )  # fmt: skip
