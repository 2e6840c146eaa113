"""The parts of one run of a worker, and how they are put together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..app.hooks import Hooks
from ..app.registry import Registry
from ..executor import Executors, ProcessPool, ThreadExecutor
from ..store.contract import Store
from .attempts.handler_services import CurrentSession, HandlerServices
from .outcomes import Outcomes
from .pump import Pump
from .recovery import Recovery
from .runner import Runner
from .settings import WorkerSettings
from .shutdown import Shutdown, WorkerExit
from .turns.capacity import Capacity
from .turns.choice import ClaimChoice, ClaimRound, PendingTurns
from .turns.skipped_queues import FailingQueues, UnknownTasks
from .turns.wakeups import WakeUps
from .upkeep.upkeep import ClaimCounts


@dataclass(frozen=True)
class Parts:
    """What the sessions of one run share."""

    current: CurrentSession
    outcomes: Outcomes
    services: HandlerServices
    pool: ProcessPool
    claims: ClaimCounts
    pending: PendingTurns
    wake_ups: WakeUps
    unknown: UnknownTasks
    capacity: Capacity
    runner: Runner
    exit: WorkerExit
    recovery: Recovery
    shutdown: Shutdown
    pump: Pump


MOST_PARTS = 2
"""In how many turns the slots are filled while handlers do not wait."""


def assemble(
    store: Store, registry: Registry, hooks: Hooks, settings: WorkerSettings, stop: Callable[[bool, str], object]
) -> Parts:
    """Return the parts of a run, each made with those that it holds; `stop` stops the worker."""
    current, pending, wake_ups, claims = CurrentSession(), PendingTurns(), WakeUps(hooks), ClaimCounts()
    services = HandlerServices(store, registry, current)
    outcomes = Outcomes(hooks, current, settings.observer, services.retry)
    resources, observer = [each.place for each in registry.resources if each.scope == "process"], settings.observer
    pool = ProcessPool(settings.pool, resources, wake_ups.alarm.ring, told=observer.process_ended)
    executors = Executors(ThreadExecutor(settings.slots), pool, services.blocker_records, store.url)
    failing = FailingQueues(hooks, wake_ups.ask_again_in, time.monotonic)
    unknown = UnknownTasks(store, hooks, wake_ups.ask_again_in, time.monotonic)
    runner = Runner(
        registry=registry, hooks=hooks, slots=settings.slots, executors=executors, services=services,
        outcomes=outcomes, pending=pending, wake_ups=wake_ups, failing=failing, unknown=unknown, claims=claims,
        middleware=settings.middleware, observer=settings.observer,
    )  # fmt: skip
    exit = WorkerExit(hooks, settings.name, runner, outcomes.report, stop)
    recovery = Recovery(store, hooks, runner, outcomes, wake_ups.alarm, exit.store_too_new)
    shutdown = Shutdown(runner, recovery, pending, wake_ups.alarm, settings.drain, settings.grace)
    capacity = Capacity(registry, pool.units)
    # A claim that is to be the only one for a while is for all slots.
    share = settings.slots if settings.claim_interval else -(-settings.slots // store.turns_at_once)
    large_share = -(-settings.slots // MOST_PARTS)
    choice = ClaimChoice(capacity, pending, ClaimRound(), share, large_share)
    pump = Pump(
        store, current, runner=runner, outcomes=outcomes, recovery=recovery, pending=pending, choice=choice,
        failing=failing, unknown=unknown, wake_ups=wake_ups, poll=settings.poll,
        claim_interval=settings.claim_interval,
    )  # fmt: skip
    return Parts(
        current, outcomes, services, pool, claims, pending, wake_ups, unknown, capacity, runner, exit, recovery,
        shutdown, pump,
    )  # fmt: skip
