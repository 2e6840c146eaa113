"""The list of jobs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ....core.job import JobRecord
from ....core.state import State
from ....store.contract import JobCount
from ...site import Site, site_of
from ..shell import show
from ..view.jobs import ROWS, JobQuery

PAGES_LOOKED_AT = 5
"""So many pages of the store are read for one page of the list, where a filter finds little."""


async def jobs(request: Request) -> Response:
    """Show jobs that match."""
    site = site_of(request)
    query = JobQuery.of(request.query_params)
    cursor = request.query_params.get("cursor")
    found, more = await read_jobs(site, query, cursor)
    queues, _ = await site.glance.queues()
    counts = {
        str(state): sum(each.counts.get(state, 0) for each in queues if query.queue in ("", each.name))
        for state in State
    }
    return await show(
        request, "jobs", "jobs.html", query=query, jobs=found, more=more, cursor=cursor, counts=counts,
        total=await _total(site, query, counts), deeds=query.deeds(), states=[str(state) for state in State],
        queue_names=sorted(each.name for each in queues),
    )  # fmt: skip


async def _total(site: Site, query: JobQuery, counts: dict[str, int]) -> JobCount | None:
    """Return how many match: by counters, or as far as can be counted in a moment."""
    if not query.narrows:
        return JobCount(number=counts[query.state] if query.state else sum(counts.values()))
    return None if query.worker else await site.app.store.count(query.filter(), most=1000)


async def read_jobs(
    site: Site, query: JobQuery, cursor: str | None, rows: int = ROWS
) -> tuple[list[JobRecord], str | None]:
    """Return a page of jobs, and the cursor of the next; pages of the store may be short where little matches."""
    found: list[JobRecord] = []
    for _ in range(PAGES_LOOKED_AT):
        page = await site.app.client.look.jobs(query.filter(), rows - len(found), cursor, worker=query.worker or None)
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) >= rows:
            break
    return found, cursor
