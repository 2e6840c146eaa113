"""What a fault can get hold of."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from .board import Board
from .crew import Actor, Crew
from .place import Place
from .plan import Plan


@dataclass
class Field:
    """One torture: its processes, its store and its numbers."""

    plan: Plan
    place: Place
    crew: Crew
    board: Board
    rng: random.Random

    def one(self, role: str) -> Actor | None:
        """Return an actor of a role that is alive, by chance."""
        alive = [actor for actor in self.crew.of(role) if actor.alive]
        return self.rng.choice(alive) if alive else None

    def leases(self, least: float, most: float) -> float:
        """Return so many seconds, between so many leases."""
        return self.rng.uniform(least, most) * self.plan.lease

    async def wait(self, least: float, most: float) -> None:
        """A fault lasts so many leases."""
        await asyncio.sleep(self.leases(least, most))
