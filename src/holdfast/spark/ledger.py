"""What a named write or a fleet has to remember, kept in the store itself.

A record is a job that never runs: it lies in a queue that no worker serves, scheduled for a time that none will see. So
it is written atomically, seen from every executor, and every store can keep it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..store import Store
from ..store.contract import Conflict, NewJob

LEDGER = "holdfast.ledger"
"""The queue of the records."""
NEVER_MS = 7_258_118_400_000
"""The year 2200: far enough, and not too far to be shown, as pandas' clock ends in 2262 and Python's in 9999."""
_REPLACE = Conflict(on_conflict="update")


async def note(store: Store, id: str, value: Any, *, keep_ms: int | None = None) -> None:
    """The record says this, in place of what it said before; it goes after `keep_ms`, or stays."""
    job = NewJob(
        id=id, task=None, payload=msgspec.json.encode(value), run_at_ms=NEVER_MS, result_ttl_ms=keep_ms
    )  # fmt: skip
    await store.enqueue(LEDGER, [job], _REPLACE)
    if keep_ms is not None:
        await store.cancel(LEDGER, id)  # what is cancelled can still be read, until its time is over


async def noted(store: Store, id: str) -> Any:
    """Return what the record says, or `None`."""
    found = await store.get(LEDGER, id)
    return None if found is None else msgspec.json.decode(found.payload)


async def strike(store: Store, id: str) -> None:
    """There is no such record any more."""
    await store.delete(LEDGER, id)
