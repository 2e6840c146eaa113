"""Listeners of this process, and the runs whose end they want to hear of."""

from __future__ import annotations

from collections.abc import Callable

from ..contract import Finished, Listener
from .database import Database
from .notify import SqliteListener
from .query import get
from .tx import Tx


class SqliteListening:
    """Open listeners, and note which runs they watch."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        """Return a listener that calls back in this event loop."""
        return await SqliteListener(on_wake, on_finished).open(other_processes=self._database.shared)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        """Let the listener hear when a run ends; return False when it has ended already, or is not there."""
        return await self._database.write(_watch, listener.address, queue, id, run, small=True)

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        """Let the listener hear no more of a run."""
        await self._database.write(lambda tx: tx.unwatch(queue, id, run, listener.address))


def _watch(tx: Tx, address: str, queue: str, id: str, run: int) -> bool:
    job = get(tx, queue, id, run)
    if job is None or job.outcome.finished:
        successor = tx.row("update", "successor", queue=queue, id=id)
        if successor is None or successor["run"] != run:
            return False
    tx.watch(queue, [(id, run, address)])
    return True
