"""Spares: interpreters that were started ahead of need, and have imported everything but the task's code."""

from __future__ import annotations

import asyncio

from .spawn import Kind, Spawned, spawn
from .tree import kill_tree


class Spares:
    """One of each kind, for sandboxes: those start only when a job needs one, and anew when one was killed."""

    def __init__(self) -> None:
        self._starting: dict[Kind, asyncio.Task[Spawned]] = {}
        self.wanted: set[Kind] = set()
        """Of these there shall be one, and is none."""

    def fill(self, deadline: int) -> None:
        """One of each kind that is wanted is there, or starting."""
        for kind in self.wanted:
            self._starting[kind] = asyncio.get_running_loop().create_task(spawn(kind, deadline))
        self.wanted.clear()

    async def take(self, kind: Kind, deadline: int) -> Spawned:
        """Return an interpreter of this kind: the spare one, or a new one."""
        starting = self._starting.pop(kind, None)
        self.wanted.add(kind)
        if starting is not None:
            spawned = await starting
            if spawned.child.returncode is None:
                return spawned
            spawned.line.close()
        return await spawn(kind, deadline)

    async def close(self) -> None:
        """Nothing waits to be used."""
        starting, self._starting = list(self._starting.values()), {}
        for outcome in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(outcome, Spawned):  # or it could not even start, which whoever needs one will be told
                outcome.line.close()
                kill_tree(outcome.child.pid)
                await outcome.child.wait()
