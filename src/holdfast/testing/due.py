"""What is due next."""

from __future__ import annotations

import msgspec

from ..app.app import Holdfast

LOOKED_AT = 100


class NextDue(msgspec.Struct, frozen=True):
    """What is due at an instant: a job, or a tick of a schedule."""

    at_ms: int
    what: str


async def due_after(app: Holdfast, now_ms: int) -> NextDue | None:
    """Return what is due first after an instant; `None` when nothing is."""
    found = [
        NextDue(each.next_at_ms, f"schedule {each.name}")
        for each in await app.schedules.list()
        if each.next_at_ms is not None and each.next_at_ms > now_ms
    ]
    cursor: str | None = None
    while True:
        page = await app.jobs(state="scheduled", limit=LOOKED_AT, cursor=cursor)  # those first that are due first
        later = [job for job in page.jobs if job.run_at_ms > now_ms]
        found += [NextDue(job.run_at_ms, f"{job.queue}/{job.id}") for job in later[:1]]
        cursor = page.cursor
        if later or cursor is None:
            return min(found, key=lambda due: due.at_ms, default=None)
