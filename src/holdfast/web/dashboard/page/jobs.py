"""The list of jobs."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ....core.job import JobRecord
from ....core.state import State
from ....store.contract import JobCount, JobPage
from ...site import Site, site_of
from ..shell import show
from ..view.jobs import ROWS, TIMES, JobQuery

PATIENCE = 0.03
"""For so many seconds more pages of the store are read for one page of the list, where a filter finds little."""
COUNTED_ON_A_PAGE = 1000
WHEN = {
    "scheduled": "Due", "waiting": "Enqueued", "blocked": "Enqueued", "active": "Started", "completed": "Ended",
    "failed": "Ended", "cancelled": "Ended",
}  # fmt: skip
"""What the instant is that a list of one state shows."""


async def jobs(request: Request) -> Response:
    """Show jobs that match."""
    site = site_of(request)
    query = JobQuery.of_address(request.query_params)
    cursor = request.query_params.get("cursor")
    page = await read_jobs(site, query, cursor)
    queues, _ = await site.glance.queues()
    counts = {
        str(state): sum(each.counts.get(state, 0) for each in queues if query.queue in ("", each.name))
        for state in State
    }
    return await show(
        request, "jobs", "jobs.html", query=query, jobs=page.jobs, more=page.cursor, cursor=cursor, counts=counts,
        short=len(page.jobs) < ROWS, total=await _total(site, query, counts, page, cursor), deeds=query.deeds(),
        states=[str(state) for state in State], queue_names=sorted(each.name for each in queues),
        times=TIMES, when=WHEN.get(query.state, "When"),
    )  # fmt: skip


async def _total(
    site: Site, query: JobQuery, counts: dict[str, int], page: JobPage, cursor: str | None
) -> JobCount | None:
    """Return how many match: by counters, by the page, or as far as can be counted in a moment."""
    if not query.narrows:
        return JobCount(number=counts[query.state] if query.state else sum(counts.values()))
    if cursor is None and (page.cursor is None or len(page.jobs) < ROWS):
        return JobCount(number=len(page.jobs), more=page.cursor is not None) if page.jobs or not page.cursor else None
    return None if query.worker else await site.app.store.count(query.filter(), most=COUNTED_ON_A_PAGE)


async def read_jobs(site: Site, query: JobQuery, cursor: str | None, rows: int = ROWS) -> JobPage:
    """Return a page of jobs; one of the store may be short where little matches, and then some more are read."""
    deadline = time.monotonic() + PATIENCE
    found = [] if cursor or not query.id else await _named(site, query)
    named = {(job.queue, job.run) for job in found}
    while True:
        look = site.app.client.look.jobs(query.filter(), rows - len(found), cursor, worker=query.worker or None)
        page = await look
        found += [job for job in page.jobs if (job.queue, job.run) not in named]
        cursor = page.cursor
        if cursor is None or len(found) >= rows or time.monotonic() > deadline:
            return JobPage(jobs=found, cursor=cursor)


async def _named(site: Site, query: JobQuery) -> list[JobRecord]:
    """Return the jobs that have the whole id: they are found at once, wherever others that begin with it may be."""
    which = msgspec.structs.replace(query.filter(), id_prefix=None, ids=(query.id,))
    return (await site.app.client.look.jobs(which, ROWS // 2, worker=query.worker or None)).jobs
