"""Jobs that run in place: in this process and thread, one after the other, with no worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from ..app import Holdfast
from ..errors import ConfigError, HoldfastError, JobError
from ..executor import PoolOptions, ThreadExecutor, run_inline
from ..store.contract import Claimed, Complete, Failed, Retried, Session, Settled, Settlement
from ..worker.attempt import Attempt
from ..worker.capacity import SLOTS, Ask
from ..worker.flight import Flight
from ..worker.pump import Pump
from ..worker.ticker import Ticker
from ..worker.upkeep import tidy

Outcome = Literal["completed", "retried", "failed", "snoozed", "released", "cancelled", "lost"]
LEASE_MS = 24 * 3600 * 1000


class Ran(msgspec.Struct, kw_only=True):
    """One attempt that `drain` made, and how it ended."""

    queue: str
    id: str
    run: int
    attempt: int
    task: str | None
    outcome: Outcome = "lost"
    result: Any = None
    error: BaseException | None = None
    """What the handler raised."""


async def drain(
    app: Holdfast,
    queues: Sequence[str] | None = None,
    *,
    raise_errors: bool = False,
    threads: bool = False,
    limit: int = 10_000,
) -> list[Ran]:
    """Everything that is due has run, here and now, and what it enqueued too; return what ran, in order.

    One job at a time, by the same order, policies, middleware and hooks as in a worker. What is due later,
    retries included, stays until the clock is moved. With `raise_errors`, the first error of a handler is
    recorded like any other and then raised. With `threads`, `def` handlers run in a thread, as in a worker:
    those that use `app.sync` need that.
    """
    served = tuple(queues or app.registry.queues)
    if not served:
        raise ConfigError("this app declares no task and no queue; name the queues to drain")
    async with app:
        session = _session(served)
        await app.store.declare(app.registry.declarations(served))
        await app.schedules.declare(served)
        await app.store.register(session)
        try:
            for queue in served:
                await tidy(app.store, queue, session, app.hooks)
            await Ticker(app.store, app.registry, served, app.hooks, 1.0).round()
            return await _InPlace(app, threads, limit).drain(session, raise_errors)
        finally:
            await app.store.leave(session)


def _session(queues: tuple[str, ...]) -> Session:
    id = f"drain-{os.urandom(6).hex()}"
    return Session(id=id, name="drain", host="here", pid=os.getpid(), queues=queues, lease_ms=LEASE_MS, slots=1)


class _Here(ThreadExecutor):
    """No thread: the handler runs in the event loop, and holds it up for as long as it runs."""

    async def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await run_inline(fn, args, kwargs)


class _InPlace(Pump):
    """A pump with one slot that ends when nothing is due."""

    def __init__(self, app: Holdfast, threads: bool, limit: int) -> None:
        pool = PoolOptions(count=1)
        super().__init__(app.store, app.registry, app.hooks, slots=1, poll=1.0, pulse=lambda: None, pool=pool)
        self.executors.threads = ThreadExecutor(1) if threads else _Here(1)
        self.executors.in_place = True
        self._limit = limit
        self._ran: dict[tuple[int, int], Ran] = {}
        self._raise: BaseException | None = None

    async def drain(self, session: Session, raise_errors: bool) -> list[Ran]:
        self.session = session
        try:
            await self._step(session, 0)  # tells the priorities of the queues
            while await self._step(session, 1):
                await self.drained.wait()
                if self._raise is not None and raise_errors:
                    await self._step(session, 0)
                    raise self._raise
        finally:
            self.close()
        return list(self._ran.values())

    async def _step(self, session: Session, room: int) -> bool:
        """What has ended is settled and what there is room for started; return whether there was anything."""
        settlements, self._finished = self._finished, []
        ask = Ask(SLOTS, tuple(self._choice.order(session.queues)) if room else (), room)
        self._choice.sent(ask)
        turn = await self._turn(session, Flight(settlements, ask, alone=True))
        if turn.evicted:
            raise JobError("drain() was declared dead while it ran a job: its handler moved the clock by over a day")
        self._after(turn, settlements)
        self._choice.landed(ask, turn)
        return bool(turn.claimed or settlements)

    def _start(self, jobs: list[Claimed]) -> None:
        for claimed in jobs:
            if len(self._ran) >= self._limit:
                raise HoldfastError(
                    f"drain() ran {self._limit} jobs and there is more: does a job enqueue itself? See limit="
                )
            lease = claimed.lease
            self._ran[lease.run, lease.attempt] = Ran(
                queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt, task=claimed.task
            )
        super()._start(jobs)

    def _end(self, attempt: Attempt, settlement: Settlement | None) -> None:
        ran = self._ran[attempt.lease.run, attempt.lease.attempt]
        ran.error = attempt.error
        if isinstance(settlement, Complete):
            ran.result = None if settlement.then else attempt.handler.decode_result(settlement.result)
        elif isinstance(settlement, Retried | Failed):
            self._raise = self._raise or attempt.error
        super()._end(attempt, settlement)

    def _count(self, entry: Settlement, settled: Settled) -> None:
        before = msgspec.structs.asdict(self.report)
        super()._count(entry, settled)
        after = msgspec.structs.asdict(self.report)
        (outcome,) = (name for name in after if after[name] != before[name])
        self._ran[entry.lease.run, entry.lease.attempt].outcome = outcome  # type: ignore[assignment]
