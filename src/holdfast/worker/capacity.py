"""Capacity: how many jobs can start now, and which queues to ask for them.

Slots are for handlers in the worker itself, units of the pool for those in processes. A queue may hold jobs of
several tasks, and which comes next only the store knows: so it is asked for a job only when any of them could start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from ..executor.process.room import UNITS, Need, Room
from ..registry import Registry
from ..task import Task

SLOTS = ""
"""The group of the queues whose jobs take slots alone; they are asked together."""


class Ask(msgspec.Struct, frozen=True):
    """Which queues to claim from, and how many jobs there is room for."""

    group: str
    queues: tuple[str, ...]
    room: int
    pool: bool = False
    """Jobs of the group may take units of the pool."""
    slots: bool = True
    """Jobs of the group may take slots."""


class Demand(msgspec.Struct, frozen=True):
    """What a job of a queue may take: a slot, or units of the pool by one of these needs."""

    slots: bool
    needs: tuple[Need, ...]


class Capacity:
    """What a worker has, against what its queues may want."""

    def __init__(self, registry: Registry, room: Room[Any]) -> None:
        self._registry = registry
        self._room = room
        self._demands: dict[str, Demand] = {}
        self._known = -1

    def demand(self, queue: str) -> Demand:
        """Return what jobs of a queue may take, by the tasks that this app knows."""
        if self._known != len(self._registry.tasks):
            self._demands, self._known = {}, len(self._registry.tasks)
        if queue not in self._demands:
            tasks = self._registry.runners(queue)
            needs = {need_of(task) for task in tasks if task.in_process}
            self._demands[queue] = Demand(not tasks or not all(task.in_process for task in tasks), tuple(needs))
        return self._demands[queue]

    def asks(
        self,
        order: Sequence[str],
        free: int,
        is_dry: Callable[[str], bool] = lambda group: False,
        hungry: Collection[str] = (),
    ) -> list[Ask]:
        """Return the groups that are worth asking and whose jobs can start, in this order of queues.

        For the first queue of `hungry` that does not fit, a process is kept free of the jobs of those behind it.
        """
        found: list[Ask] = []
        together: list[str] = []
        kept: int | None = None
        for queue in order:
            demand = self.demand(queue)
            if not demand.needs:
                together.append(queue)
                continue
            room = self._fitting(demand, free, kept)
            if room <= 0 and queue in hungry and kept is None:
                kept = self._room.emptiest()
            elif room > 0 and not is_dry(queue):
                found.append(Ask(queue, (queue,), room, pool=True, slots=demand.slots))
        if together and free > 0 and not is_dry(SLOTS):
            found.append(Ask(SLOTS, tuple(together), free))
        return found

    def most(self, queues: Collection[str], slots: int) -> int:
        """Return how many jobs of these queues can run at once, in so many slots and in the pool."""
        demands = [self.demand(queue) for queue in queues]
        sizes = [need.size for demand in demands for need in demand.needs]
        pooled = len(self._room.places) * (UNITS // min(sizes)) if sizes else 0
        return pooled + (slots if any(demand.slots for demand in demands) else 0)

    def cut(self, ask: Ask, free: int) -> Ask:
        """Return the ask for no more than there is room for by now."""
        room = self._fitting(self.demand(ask.group), free, None) if ask.pool else free
        return msgspec.structs.replace(ask, room=min(ask.room, room))

    def blocked(self, order: Sequence[str], free: int) -> list[str]:
        """Return the queues for whose jobs the pool lacks room, while it has some for those behind them."""
        found: list[str] = []
        behind: list[str] = []
        for queue in reversed([each for each in order if self.demand(each).needs]):
            demand = self.demand(queue)
            if self._fitting(demand, free, None) > 0:
                behind.append(queue)
            elif behind and self._room.jobs(demand.needs) == 0:
                found.insert(0, queue)
        return found

    def _fitting(self, demand: Demand, free: int, kept: int | None) -> int:
        room = self._room.jobs(demand.needs, kept)
        return min(room, free) if demand.slots else room


def need_of(task: Task[Any, Any]) -> Need:
    """Return what a job of a task takes of the pool."""
    return Need(task.size, task.setting("sandbox"))
