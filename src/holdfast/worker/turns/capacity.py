"""Capacity: how many jobs can start now, and which queues to ask for them.

Slots are for handlers in the worker itself, units of the pool for those in processes. A queue may hold jobs of
several tasks, and which comes next only the store knows: so it is asked for a job only when any of them could start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from ...app.registry import Registry
from ...app.task import AnyTask
from ...errors import ConfigError
from ...executor.process.units import UNITS, PoolUnits, UnitNeed

SLOTS = ""
"""The group of the queues whose jobs take slots alone; they are asked together."""


class ClaimRequest(msgspec.Struct, frozen=True):
    """Which queues to claim from, and how many jobs there is room for."""

    group: str
    queues: tuple[str, ...]
    room: int
    pool: bool = False
    """Jobs of the group may take units of the pool."""
    slots: int = 1
    """How many slots a job of the group may take."""

    @property
    def kept(self) -> int:
        """The slots that are kept for what it may bring."""
        return self.room * self.slots


class Demand(msgspec.Struct, frozen=True):
    """What a job of a queue may take: so many slots, or units of the pool by one of these needs."""

    slots: int
    needs: tuple[UnitNeed, ...]


class OneSlotGroup:
    """The queues whose jobs take one slot each: one group, as far as no other queue has its turn among them."""

    def __init__(self) -> None:
        self.position = 0
        """Before how many others it comes."""
        self._free = 0
        self._queues: list[str] = []
        self._passed = self._cut = False

    def add(self, queue: str, free: int, position: int) -> None:
        """Add the queue to the group, if there are slots and no queue with larger jobs comes before it."""
        if not self._queues:
            self.position, self._free = position, free
        if self._queues and self._passed:
            self._cut = True
        elif free > 0:
            self._queues.append(queue)

    def pass_by(self, other: Demand) -> None:
        """Note that another queue has its turn here, which may take slots, too."""
        self._passed = bool(self._queues) and other.slots > 1

    def request(self) -> ClaimRequest | None:
        """Return what to ask for. A part of the group has a name of its own: it may be dry where the whole is not."""
        group = "\0".join(self._queues) if self._cut else SLOTS
        return ClaimRequest(group, tuple(self._queues), self._free) if self._queues else None


class Capacity:
    """What a worker has, against what its queues may want."""

    def __init__(self, registry: Registry, units: PoolUnits[Any]) -> None:
        self.registry = registry
        self._units = units
        self._demands: dict[str, Demand] = {}
        self._one_slot: set[str] = set()
        """Queues whose jobs take one slot each, as far as they were asked for."""
        self._known = -1

    def demand(self, queue: str) -> Demand:
        """Return what jobs of a queue may take, by the tasks that this app knows."""
        if self._known != self.registry.changes:
            self._demands, self._one_slot, self._known = {}, set(), self.registry.changes
        if queue not in self._demands:
            tasks = self._runners(queue)
            needs = {need_of(task) for task in tasks if task.in_process}
            slots = max((task.slots for task in tasks), default=1)
            demand = self._demands[queue] = Demand(slots, tuple(needs))
            if not demand.needs and slots == 1:
                self._one_slot.add(queue)
        return self._demands[queue]

    def is_one_slot(self, queues: Sequence[str]) -> bool:
        """Return whether jobs of all these queues take one slot each, as those of most workers do; `False`: perhaps."""
        return not queues or (not self.demand(queues[0]).needs and self._one_slot.issuperset(queues))

    def _runners(self, queue: str) -> list[AnyTask]:
        try:
            return self.registry.runners(queue)
        except ConfigError:  # a handler that cannot be imported: its jobs are handed back, in slots
            return []

    def requests(
        self,
        order: Sequence[str],
        free: int,
        is_dry: Callable[[str], bool] = lambda group: False,
        hungry: Collection[str] = (),
    ) -> list[ClaimRequest]:
        """Return the groups that are worth asking and whose jobs can start, in this order of queues.

        For the first queue of `hungry` that does not fit, a process is kept free of the jobs of those behind it; or, if
        it lacks slots, those behind it get none.
        """
        found: list[ClaimRequest] = []
        one_slot = OneSlotGroup()
        kept: int | None = None
        for queue in order:
            demand = self.demand(queue)
            if not demand.needs and demand.slots == 1:
                one_slot.add(queue, free, len(found))
                continue
            room = self._fitting(demand, free, kept)
            if room <= 0 and queue in hungry:
                free = 0 if demand.slots > free else free
                kept = self._units.emptiest() if demand.needs and kept is None else kept
            elif room > 0 and not is_dry(queue):
                found.append(ClaimRequest(queue, (queue,), room, pool=bool(demand.needs), slots=demand.slots))
                one_slot.pass_by(demand)
        if (request := one_slot.request()) is not None and not is_dry(request.group):
            found.insert(one_slot.position, request)
        return found

    def any_slots(self, queues: Collection[str]) -> bool:
        """Return whether jobs of these queues may run in this process, and not in those of the pool alone."""
        return any(self.demand(queue).slots for queue in queues)

    def most(self, queues: Collection[str], slots: int) -> int:
        """Return how many jobs of these queues can run at once, in so many slots and in the pool."""
        demands = [self.demand(queue) for queue in queues]
        sizes = [need.size for demand in demands for need in demand.needs]
        pooled = len(self._units.places) * (UNITS // min(sizes)) if sizes else 0
        return pooled + (slots if self.any_slots(queues) else 0)

    def cut(self, request: ClaimRequest, free: int) -> ClaimRequest:
        """Return the request for no more jobs than there is room for by now."""
        room = self._fitting(self.demand(request.group), free, None) if request.pool else free // request.slots
        return msgspec.structs.replace(request, room=min(request.room, room))

    def blocked(self, order: Sequence[str], free: int) -> list[str]:
        """Return the queues for whose jobs there is no room, while those behind them would take what there is.

        The pool has some for those behind; or each slot would be theirs as soon as it is free.
        """
        found: list[str] = []
        pool_behind = slots_behind = False
        for queue in reversed(order):
            demand = self.demand(queue)
            if demand.slots > max(1, free) and slots_behind:
                found.insert(0, queue)
            elif demand.needs and self._fitting(demand, free, None) > 0:
                pool_behind = True
            elif demand.needs and pool_behind and self._units.jobs(demand.needs) == 0:
                found.insert(0, queue)
            slots_behind = slots_behind or demand.slots > 0
        return found

    def _fitting(self, demand: Demand, free: int, kept: int | None) -> int:
        room = self._units.jobs(demand.needs, kept)
        if not demand.needs:
            return free // demand.slots
        return min(room, free // demand.slots) if demand.slots else room


def need_of(task: AnyTask) -> UnitNeed:
    """Return what a job of a task takes of the pool."""
    return UnitNeed(task.size, task.setting("sandbox"))
