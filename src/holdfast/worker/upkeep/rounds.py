"""Rounds of upkeep: of few queues each is looked after, of many those in which the store knows that there is something.

Each queue wants three calls in a round. With a thousand queues and four workers that was more than their jobs cost.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from ...core.bound import FEW_QUEUES
from ...store.contract import Store

ROUNDS = 60
"""Of many queues, each is looked after in one of so many rounds, whatever the store says of it."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round has to do, by queue."""

    reap: Sequence[str]
    expire: Sequence[str]
    learn: Sequence[str]
    next_ms: int | None = None
    """In how long the next lease is over in the queues that it leaves out."""


class Rounds:
    """Choose the queues of each round. `own` is the caller's own session."""

    def __init__(self, store: Store, own: str | None) -> None:
        self._store, self._own = store, own
        self._at: int | None = None
        self._policies = ""

    async def next(self, queues: Sequence[str], sweeps: bool) -> Round:
        """Return what is to be done in these queues now. A round that does not sweep, for a lease, only reaps."""
        if len(queues) <= FEW_QUEUES:
            return Round(reap=queues, expire=queues, learn=queues)
        found = await self._store.chores(queues, self._own)
        if not sweeps:
            return Round(reap=found.reap, expire=(), learn=(), next_ms=found.next_ms)
        some = self._in_turn(queues)
        changed = self._policies not in ("", found.policies)
        self._policies = found.policies
        return Round(
            reap=_joined(found.reap, some), expire=_joined(found.expire, some), learn=queues if changed else some,
            next_ms=found.next_ms,
        )  # fmt: skip

    def in_turn(self, queues: Sequence[str]) -> Round:
        """Return the round of a store that could not be asked: those whose turn it is."""
        some = self._in_turn(queues)
        return Round(reap=some, expire=some, learn=some)

    def _in_turn(self, queues: Sequence[str]) -> Sequence[str]:
        """Return the next part of the queues; each worker begins with another."""
        if len(queues) <= FEW_QUEUES:
            return queues
        first = random.randrange(len(queues)) if self._at is None else self._at % len(queues)
        count = -(-len(queues) // ROUNDS)
        self._at = first + count
        return [queues[number % len(queues)] for number in range(first, first + count)]


def _joined(named: Sequence[str], others: Sequence[str]) -> Sequence[str]:
    return list(dict.fromkeys((*named, *others)))
