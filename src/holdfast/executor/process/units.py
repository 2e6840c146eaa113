"""Units: what a pool of processes can take at once. Pure: nothing is started or stopped here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from ...core.sandbox import Sandbox

UNITS = 100
"""What one process has room for."""


class UnitNeed(msgspec.Struct, frozen=True):
    """What a job of a task takes: so many units, in a process with these permissions."""

    size: int = UNITS
    sandbox: Sandbox | None = None


class UnitUser(Protocol):
    """A process, as far as its units are concerned."""

    sandbox: Sandbox | None
    ready: bool
    """It has started."""

    @property
    def used(self) -> int:
        """The units that its jobs take."""


P = TypeVar("P", bound=UnitUser)


class PoolUnits(Generic[P]):
    """The places of a pool. Each is empty, or holds the one process that takes new jobs there."""

    def __init__(self, count: int) -> None:
        self.places: list[P | None] = [None] * count
        self._leaving: list[list[P]] = [[] for _ in range(count)]
        """Those that take no new jobs, while their last ones still take units of the place."""

    def jobs(self, needs: Sequence[UnitNeed], kept: int | None = None) -> int:
        """Return how many jobs fit now, whichever of these needs each has. The place `kept` is for another queue."""
        if not needs:
            return 0
        size = max(need.size for need in needs)
        kinds = {need.sandbox for need in needs}
        free = [self._free(number, kinds) for number in range(len(self.places)) if number != kept]
        if len(kinds) > 1:  # whichever comes first decides what a place is for, and the next may be of another kind
            return sum(units == UNITS for units in free)
        return sum(units // size for units in free)

    def find(self, need: UnitNeed) -> int | None:
        """Return the place for a job: the fullest that has room, so that large jobs find whole ones."""
        fitting = [
            (_order(place, need), number)
            for number, place in enumerate(self.places)
            if self._free(number, {need.sandbox}) >= need.size
        ]
        return min(fitting)[1] if fitting else None

    def emptiest(self) -> int:
        """Return the place that has most units free."""
        return max(range(len(self.places)), key=lambda number: (self._left(number), -number))

    def leave(self, number: int, process: P) -> None:
        """Let another process have the place, but for the units of the jobs that are still in this one."""
        self._leaving[number].append(process)

    def _free(self, number: int, kinds: set[Sandbox | None]) -> int:
        """Return the units that jobs of these kinds can have of a place. An idle process gives way to their kind."""
        place = self.places[number]
        fits = place is None or place.used == 0 or kinds == {place.sandbox}
        return self._left(number) if fits else 0

    def _left(self, number: int) -> int:
        leaving = self._leaving[number] = [each for each in self._leaving[number] if each.used]
        place = self.places[number]
        return UNITS - sum(each.used for each in leaving) - (0 if place is None else place.used)


def _order(place: UnitUser | None, need: UnitNeed) -> tuple[int, int]:
    """Prefer a process of this kind, the fullest of them; then an empty place; then one that must be cleared."""
    if place is None:
        return 2, 0
    if place.sandbox != need.sandbox:
        return 3, 0
    return (0 if place.ready else 1), UNITS - place.used
