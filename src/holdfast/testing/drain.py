"""Jobs that run in place: in this process and thread, one after the other, with no worker."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec

from ..app.app import Holdfast
from ..app.hooks import Hooks
from ..app.task import AnyTask
from ..errors import ConfigError, HoldfastError, JobError
from ..executor import Executors, PoolOptions, ProcessPool, ThreadExecutor, run_inline
from ..store.contract import Claimed, Complete, Failed, Lease, Retried, Session, Settled, Settlement
from ..worker.attempts.attempt import Attempt
from ..worker.attempts.handler_services import CurrentSession, HandlerServices
from ..worker.outcomes import Outcomes
from ..worker.runner import Runner
from ..worker.turns.capacity import SLOTS, Capacity, ClaimRequest
from ..worker.turns.choice import ClaimChoice, ClaimRound, PendingTurns
from ..worker.turns.skipped_queues import FailingQueues, UnknownTasks
from ..worker.turns.wakeups import WakeUps
from ..worker.upkeep.ticker import Ticker
from ..worker.upkeep.upkeep import ClaimCounts, tidy
from .due import due_after

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
    async with _in_place(app, queues, threads, limit) as place:
        return await place.drain(raise_errors)


async def run_one(
    app: Holdfast, queues: Sequence[str] | None = None, *, raise_errors: bool = False, threads: bool = False
) -> Ran:
    """Run the one job that is next, as `drain` would, and return how that went; raise when nothing is due.

    What it enqueues waits for its own turn.
    """
    async with _in_place(app, queues, threads, 1) as place:
        ran = await place.drain(raise_errors, most=1)
        if ran:
            return ran[0]
        now = await app.store.now_ms()
        due = await due_after(app, now)
    coming = "and nothing is due later" if due is None else f"{due.what} is due in {(due.at_ms - now) / 1000:g} s"
    raise AssertionError(f"nothing is due now; {coming}")


@asynccontextmanager
async def _in_place(app: Holdfast, queues: Sequence[str] | None, threads: bool, limit: int) -> AsyncIterator[_InPlace]:
    """Declare what the app has, fire what is due, and have a session in which jobs can run."""
    served = tuple(queues or app.registry.queues)
    if not served:
        raise ConfigError("this app declares no task and no queue; name the queues to drain")
    async with app:
        session = _session(served)
        await app.store.declare(app.registry.declarations(served, overrules=app.development))
        await app.schedules.declare(served, overrules=app.development)
        await app.store.register(session)
        try:
            for queue in served:
                await tidy(app.store, queue, session, app.hooks)
            await Ticker(app.store, app.registry, served, app.hooks, 1.0).round()
            yield _InPlace(app, session, threads, limit)
        finally:
            await app.store.leave(session)


def _session(queues: tuple[str, ...]) -> Session:
    id = f"drain-{os.urandom(6).hex()}"
    return Session(id=id, name="drain", host="here", pid=os.getpid(), queues=queues, lease_ms=LEASE_MS, slots=1)


class _Here(ThreadExecutor):
    """No thread: the handler runs in the event loop, and holds it up for as long as it runs."""

    async def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: Any = None) -> Any:
        return await run_inline(fn, args, kwargs)


class _Recorded(Outcomes):
    """Outcomes that also record each attempt."""

    def __init__(self, hooks: Hooks, current: CurrentSession) -> None:
        super().__init__(hooks, current)
        self.ran: dict[tuple[int, int], Ran] = {}
        self._handlers: dict[Lease, AnyTask] = {}

    def begin(self, claimed: Claimed) -> None:
        lease = claimed.lease
        self.ran[lease.run, lease.attempt] = Ran(
            queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt, task=claimed.task
        )

    @property
    def keeps_completions(self) -> bool:
        """True: every end is recorded, whoever else is told of it."""
        return True

    def remember(self, ended: Attempt | Claimed, settlement: Settlement | None = None) -> None:
        super().remember(ended, settlement)
        if isinstance(ended, Attempt):
            self._handlers[ended.lease] = ended.handler
            self.ran[ended.lease.run, ended.lease.attempt].error = ended.error

    def keep(self, attempt: Attempt) -> None:
        super().keep(attempt)
        self._handlers[attempt.lease] = attempt.handler

    @property
    def failed(self) -> BaseException | None:
        """What a handler raised whose failure is not settled yet."""
        for entry in self.unsettled:
            if isinstance(entry, Retried | Failed):
                return self.ran[entry.lease.run, entry.lease.attempt].error
        return None

    def count_all(self, entries: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        for entry, answer in zip(entries, settled, strict=True):
            self._record(entry, answer)

    def _record(self, entry: Settlement, settled: Settled) -> None:
        before = msgspec.structs.asdict(self.report)
        super().count_all([entry], [settled])
        after = msgspec.structs.asdict(self.report)
        (outcome,) = (name for name in after if after[name] != before[name])
        ran = self.ran[entry.lease.run, entry.lease.attempt]
        ran.outcome = outcome  # type: ignore[assignment]
        if isinstance(entry, Complete) and entry.then is None:
            ran.result = self._handlers[entry.lease].decode_result(entry.result)


class _InPlace:
    """A runner with one slot, and turns one after the other until nothing is due."""

    def __init__(self, app: Holdfast, session: Session, threads: bool, limit: int) -> None:
        self._store, self._session, self._limit = app.store, session, limit
        current, pending, wake_ups = CurrentSession(session), PendingTurns(), WakeUps(app.hooks)
        self._outcomes = _Recorded(app.hooks, current)
        services = HandlerServices(app.store, app.registry, current)
        pool = ProcessPool(PoolOptions(count=1), [], wake_ups.alarm.ring)
        executors = Executors(ThreadExecutor(1) if threads else _Here(1), pool, services.blocker_records, app.store.url)
        executors.in_place = True
        unknown = UnknownTasks(app.store, app.hooks, wake_ups.ask_again_in, time.monotonic)
        unknown.alone = True
        self._runner = Runner(
            registry=app.registry, hooks=app.hooks, slots=1, executors=executors, services=services,
            outcomes=self._outcomes, pending=pending, wake_ups=wake_ups, unknown=unknown, claims=ClaimCounts(),
            failing=FailingQueues(app.hooks, wake_ups.ask_again_in, time.monotonic),
        )  # fmt: skip
        self._choice = ClaimChoice(Capacity(app.registry, pool.units), pending, ClaimRound(), share=1)

    async def drain(self, raise_errors: bool, most: int | None = None) -> list[Ran]:
        """Run what is due, or as many jobs as `most` says; return what ran."""
        try:
            await self._step(0)  # tells the priorities of the queues
            while await self._step(0 if len(self._outcomes.ran) == most else 1):
                await self._runner.drained.wait()
                if raise_errors and (error := self._outcomes.failed) is not None:
                    await self._step(0)
                    raise error
        finally:
            self._runner.close()
        return list(self._outcomes.ran.values())

    async def _step(self, room: int) -> bool:
        """Settle what has ended and start what there is room for; return whether there was anything."""
        settlements = self._outcomes.take()
        queues = tuple(self._choice.order(self._session.queues)) if room else ()
        request = ClaimRequest(SLOTS, queues, room)
        self._choice.sent(request)
        turn = await self._store.settle_and_claim(self._session, settlements, queues, room)
        if turn.evicted:
            raise JobError("drain() was declared dead while it ran a job: its handler moved the clock by over a day")
        for claimed in turn.claimed:
            if len(self._outcomes.ran) >= self._limit:
                raise HoldfastError(
                    f"drain() ran {self._limit} jobs and there is more: does a job enqueue itself? See limit="
                )
            self._outcomes.begin(claimed)
        self._runner.apply(turn, settlements)
        self._choice.answered(request, turn)
        return bool(turn.claimed or settlements)
