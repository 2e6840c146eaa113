"""What a named write or a fleet has to remember, kept in the store itself.

A record is a job that never runs: it lies in a queue that no worker serves, scheduled for the year 2200. So it is
written atomically, every executor sees it, and every store can keep it.
"""

from __future__ import annotations

import msgspec

from ..store import Store
from ..store.contract import Conflict, NewJob

RECORDS = "holdfast.records"
"""The queue of the records."""
NEVER_MS = 7_258_118_400_000
"""The year 2200: far enough, and not too far to be shown, as pandas' clock ends in 2262 and Python's in 9999."""
_REPLACE = Conflict(on_conflict="update")


async def write_record(store: Store, id: str, value: object, *, keep_ms: int | None = None) -> None:
    """Write a record in place of the one before it. It is removed after `keep_ms`, or kept for good."""
    job = NewJob(
        id=id, task=None, payload=msgspec.json.encode(value), run_at_ms=NEVER_MS, result_ttl_ms=keep_ms
    )  # fmt: skip
    await store.enqueue(RECORDS, [job], _REPLACE)
    if keep_ms is not None:
        await store.cancel(RECORDS, id)  # a cancelled job can still be read until its TTL is over


async def read_record(store: Store, id: str) -> bytes | None:
    """Return a record as JSON, or `None` when there is none."""
    found = await store.get(RECORDS, id)
    return None if found is None else found.payload


async def delete_record(store: Store, id: str) -> None:
    """Delete a record, if it is there."""
    await store.delete(RECORDS, id)
