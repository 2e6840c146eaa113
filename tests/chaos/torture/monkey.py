"""The monkeys: one for the processes and one for the store, each with one fault at a time, so that any two may meet."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from . import process_faults, store_faults
from .field import Field
from .ledger import note, now_us
from .place import Place, Server

Fault = Callable[[Field], Awaitable[None]]


@dataclass(frozen=True)
class Done:
    """One fault that was done: when it began, and when it was undone."""

    kind: str
    began: int
    ended: int


def kinds(place: Place) -> tuple[dict[str, Fault], dict[str, Fault], dict[str, str]]:
    """Return the faults of processes and of this store by name, and why others are left out here."""
    own = store_faults.SERVER if isinstance(place, Server) else store_faults.SQLITE
    store = {fault.__name__: fault for fault in (*own, *store_faults.ANY)}
    left_out = {}
    if not place.disk.mounted:
        left_out["full_disk"] = "only root can mount a small file system"
    if not place.steppable:
        left_out["clock_step"] = "the server's clock is stepped by a C library, and there is no cc"
    for kind in left_out:
        del store[kind]
    return {fault.__name__: fault for fault in process_faults.FAULTS}, store, left_out


class Monkey:
    """Does one fault after another, until it is cancelled: each kind once, then by chance."""

    def __init__(self, field: Field, name: str, faults: dict[str, Fault]) -> None:
        self._field = replace(field, rng=random.Random(f"{field.plan.seed}-{name}"))
        self._faults = faults
        self.done: list[Done] = []

    async def run(self) -> None:
        """It never ends by itself."""
        rng, every = self._field.rng, self._field.plan.every
        names = sorted(self._faults)
        turn = rng.sample(names, len(names))
        while names:
            await asyncio.sleep(rng.uniform(0.2, 1.8) * every)
            await self._do(turn.pop() if turn else rng.choice(names))

    async def _do(self, kind: str) -> None:
        began = now_us()
        try:
            await self._faults[kind](self._field)
        finally:
            self.done.append(Done(kind, began, now_us()))
            note("F", kind, now_us(), at=began)
