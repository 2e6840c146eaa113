"""A worker's options, checked: how long its lease is, how often it is extended, and how its processes are kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from ..app.hooks import Hooks
from ..app.registry import Registry
from ..core.bound import MOST_COUNT
from ..core.duration import DEFAULT_LEASE, Duration, lease_ms, to_ms
from ..core.limit import check_count
from ..errors import ConfigError
from ..executor import PoolOptions
from ..handler.middleware import Middleware
from ..schedule import Schedules
from ..store.contract import Store
from ..telemetry.health.ports import PortOptions
from ..telemetry.observer import Observers

SHORTEST_BEAT = 0.05


class WorkerApp(Protocol):
    """An app, as far as its workers must know it."""

    store: Store
    registry: Registry
    hooks: Hooks
    schedules: Schedules
    logger: logging.Logger | None
    development: bool
    """Whether what its workers declare takes the place of other values under the same version."""
    metrics: bool | None
    """Whether producers and workers count; `None`: when OpenTelemetry has a meter provider."""

    def count_calls(self) -> None:
        """Count from now on what this process enqueues."""

    async def __aenter__(self) -> object:
        """Open it. May be nested."""

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""


class LeaseTimes(msgspec.Struct, frozen=True):
    """How long a worker's lease is, how often it is extended, and when its loop counts as stuck."""

    lease_ms: int
    heartbeat: float
    wedged_after: float

    @property
    def lease(self) -> float:
        """The lease in seconds."""
        return self.lease_ms / 1000


class LeaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's options of its lease. A worker has one lease: `None` means the longest that one of its tasks wants."""

    lease: Duration | None
    heartbeat: Duration | None
    wedged_after: Duration | None

    def times(self, registry: Registry, queues: Iterable[str]) -> LeaseTimes:
        """Return what holds for a worker of these queues; raise when its options contradict each other."""
        lease = self._lease(registry, queues)
        wedged = lease / 250 if self.wedged_after is None else to_ms(self.wedged_after, "wedged_after") / 1000
        return LeaseTimes(lease, self._heartbeat(lease), wedged)

    def _lease(self, registry: Registry, queues: Iterable[str]) -> int:
        wanted = task_leases(registry, queues)
        if self.lease is None:
            return max((ms for ms, _ in wanted), default=lease_ms(DEFAULT_LEASE, "lease"))
        given = lease_ms(self.lease, "lease")
        for ms, name in wanted:
            if name and ms > given:
                raise ConfigError(
                    f"lease={self.lease!r}: task {name!r} has a lease of {ms / 1000:g} s, and would be taken over "
                    "before that: give this worker a lease that is as long, or none, or queues without that task"
                )
        return given

    def _heartbeat(self, lease: int) -> float:
        if self.heartbeat is None:
            return lease / 3000
        beat = to_ms(self.heartbeat, "heartbeat") / 1000
        if not SHORTEST_BEAT <= beat <= lease / 2000:
            raise ConfigError(
                f"heartbeat={self.heartbeat!r}: from {SHORTEST_BEAT} s to half of the lease, which is "
                f"{lease / 1000:g} s: a heartbeat that is lost must not cost the lease"
            )
        return beat


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker's options amount to, checked. Times are in seconds."""

    name: str
    slots: int
    lease: LeaseOptions
    claim_interval: float
    poll: float
    drain: float
    grace: float
    on_evicted: Literal["restart", "exit"]
    on_stuck: Literal["keep", "exit"]
    pool: PoolOptions
    guarded: bool
    middleware: Sequence[Middleware]
    logger: logging.Logger | None
    observer: Observers
    ports: PortOptions
    development: bool = False


def task_leases(registry: Registry, queues: Iterable[str]) -> list[tuple[int, str]]:
    """Return the lease that each task of these queues wants, in milliseconds; with no name where it says nothing."""
    found = []
    for task in (task for queue in queues for task in registry.runners(queue)):
        own = task.setting("lease")
        found.append((lease_ms(DEFAULT_LEASE if own is None else own, "lease"), "" if own is None else task.name))
    return found


def pool_options(count: int | None, jobs: int | None, memory: int | None, drain: float, grace: float) -> PoolOptions:
    """Return how a worker's processes are kept, or raise when an option is wrong."""
    for name, value in (("pool", count), ("recycle_jobs", jobs), ("recycle_memory", memory)):
        if value is not None:
            check_count(value, name, most=2**62 if name == "recycle_memory" else MOST_COUNT)
    count = count or os.cpu_count() or 1
    return PoolOptions(count=count, recycle_jobs=jobs, recycle_memory=memory, drain=drain, grace=grace)


def check_switch(value: object, name: str) -> None:
    """Raise when an option is neither on nor off."""
    if type(value) is not bool:
        raise ConfigError(f"{name}={value!r}: True or False")


def check_choice(value: object, name: str, *choices: str) -> None:
    """Raise when an option is none of its choices."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r}: " + " or ".join(f'"{choice}"' for choice in choices))
