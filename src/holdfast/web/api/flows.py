"""Flows: their jobs are those whose ids begin with the flow's."""

from __future__ import annotations

from collections import Counter

import msgspec

from ...core.job import JobRecord
from ...core.state import FINISHED
from ...json_form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .shapes import FlowShape

group = EndpointGroup("chains")
MOST_JOBS = 10_000
AT_ONCE = 1000


class FlowName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flow, by its id: what stands before the slash in the ids of its jobs."""

    id: str


@group.add("GET", "/flow", query=FlowName, answer=FlowShape)
async def get_flow(call: ApiCall[FlowName, None]) -> JsonObject:
    """Show the jobs of a flow that are there, by name, with their states; of a very large one the newest."""
    flow = call.query.id
    if not flow or "/" in flow:
        raise Problem(
            400, "bad-parameter", f"id={flow!r}: a flow's id is what stands before the slash in those of its jobs"
        )
    jobs, more = await _jobs(call, f"{flow}/")
    if not jobs:
        raise Problem(404, "flow-missing", f"there is no job of a flow {flow!r}, or all have expired")
    counts = Counter(str(job.outcome) for job in jobs)
    over = not more and all(job.outcome in FINISHED for job in jobs)
    shown = sorted((_shown(job, flow) for job in jobs), key=lambda each: str(each["name"]))
    return {"id": flow, "counts": counts, "over": over, "more": more, "jobs": shown}


async def _jobs(call: ApiCall[FlowName, None], prefix: str) -> tuple[list[JobRecord], bool]:
    """Return the runs that hold their ids, and whether there are more than are read."""
    found: list[JobRecord] = []
    cursor: str | None = None
    while len(found) < MOST_JOBS:
        page = await call.app.jobs(id_prefix=prefix, limit=AT_ONCE, cursor=cursor)
        found += [job for job in page.jobs if job.holds_id and job.position == 0]
        cursor = page.cursor
        if cursor is None:
            return found, False
    return found, True


def _shown(job: JobRecord, flow: str) -> JsonObject:
    return {
        "queue": job.queue,
        "id": job.id,
        "run": job.run,
        "name": job.id.removeprefix(f"{flow}/"),
        "task": job.task,
        "state": job.outcome,
        "blockers": job.blockers,
    }
