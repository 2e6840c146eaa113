"""Chains, and the graph of a chain or flow."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ....core.chain import ChainRef
from ....core.job import JobRecord
from ....core.state import State
from ....errors import JobMissing
from ....store.contract import Filter
from ...address import href, root_of
from ...problem import Problem
from ...site import Site, site_of
from ..data import ShownData, shown_data
from ..draw.chart import bar
from ..draw.graph import draw_graph
from ..filters import check_filters
from ..shell import show
from ..view.graph import Box, JobGraph, Name, grouped
from .job import JobAddress

CHAINS_SHOWN = 50
MOST_JOBS = 2000
"""So many jobs of a graph are read."""
MOST_WALKED = 40
"""So many steps away from the job that was asked for a walk goes."""
FLOW_JOBS_AT_ONCE = 500
PATIENCE = 0.05
"""For so many seconds the jobs of a flow are looked for by their ids, where a store has no index for these: most of
them are found by walking, too."""
AT_ONCE = 16
GROUP_SHOWN = 100
ORDER = (
    State.FAILED, State.ACTIVE, State.WAITING, State.SCHEDULED, State.BLOCKED, State.CANCELLED, State.COMPLETED,
)  # fmt: skip


async def chains(request: Request) -> Response:
    """Show chains of more than one job."""
    site = site_of(request)
    check_filters(request.query_params, [])
    cursor = request.query_params.get("cursor")
    page = await site.app.chains(limit=CHAINS_SHOWN, cursor=cursor)
    queues, _ = await site.glance.queues()
    return await show(
        request, "chains", "chains.html", chains=page.chains, more=page.cursor, cursor=cursor,
        queue_names=sorted(each.name for each in queues),
    )  # fmt: skip


async def graph(request: Request) -> Response:
    """Show everything that a job is joined to, by chain, blockers and dependants."""
    site, where = site_of(request), JobAddress.of(request)
    root = root_of(request)
    record = await site.app.status(where.queue, where.id, where.run)
    chain = await site.app.chain(where.queue, where.id, where.run)
    found = await GraphReader(site).read(record)

    def link(box: Box) -> str:
        if len(box.jobs) == 1:
            only = box.jobs[0]
            return href(root, "/job", queue=only.queue, id=only.id, run=only.run)
        return href(root, "/graph", queue=where.queue, id=where.id, run=where.run, box=box.key) + "#group"

    box = _chosen(found, request.query_params.get("box"))
    counts = found.counts
    return await show(
        request, "chains", "graph.html", job=record, chain=chain, graph=found, picture=draw_graph(found, link), box=box,
        totals=[(str(state), counts[state]) for state in ORDER if counts[state]], progress=_progress(found),
        jobs=_first(box.jobs) if box else [],
        result=await _result(site, chain.current) if chain.state is State.COMPLETED else None,
    )  # fmt: skip


def _progress(found: JobGraph) -> Markup | None:
    """Return a bar of how far the whole graph is; `None` for one that is drawn with all its jobs."""
    counts, order = found.counts, (State.COMPLETED, *(state for state in ORDER if state is not State.COMPLETED))
    if found.jobs == len(found.boxes):
        return None
    return bar([(str(state), counts[state]) for state in order], f"{found.over:,} of {found.jobs:,} jobs are finished")


def _chosen(found: JobGraph, text: str | None) -> Box | None:
    if text is None:
        return None
    box = next((each for each in found.boxes if str(each.key) == text), None)
    if box is None:
        raise Problem(404, "not-found", "that group is not there any more: the graph has changed")
    return box


def _first(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    return sorted(jobs, key=lambda job: ORDER.index(job.outcome))[:GROUP_SHOWN]


async def _result(site: Site, last: ChainRef) -> ShownData | None:
    try:
        return shown_data(site, await site.app.status(last.queue, last.id, last.run), "result")
    except JobMissing:
        return None


class GraphReader:
    """Walks from one job to all that it is joined to."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._jobs: dict[Name, JobRecord] = {}
        self._after: dict[Name, list[Name]] = {}
        self._steps: dict[Name, Name] = {}
        """The job of a chain before each."""
        self._last: dict[Name, Name] = {}
        """The last job of the chain that a job began: who waits for a chain waits for that one."""
        self._cut = False
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def read(self, start: JobRecord) -> JobGraph:
        """Return the graph round a job."""
        await self._add_flow(start)
        ring = list(self._jobs.values()) or [start]
        self._jobs.setdefault((start.queue, start.id), start)
        walked: set[Name] = set()
        for _ in range(MOST_WALKED):
            fresh = [job for job in ring if (job.queue, job.id) not in walked]
            if not fresh:
                break
            walked |= {(job.queue, job.id) for job in fresh}
            names = await asyncio.gather(*(self._joined(job) for job in fresh))
            ring = await self._look_up({name for some in names for name in some if name not in self._jobs})
        after = {name: [self._last.get(each, each) for each in before] for name, before in self._after.items()}
        for name, before in self._steps.items():
            after.setdefault(name, []).append(before)
        return grouped(list(self._jobs.values()), after, self._cut)

    async def _add_flow(self, start: JobRecord) -> None:
        """Read the jobs of a flow at once: their ids begin with the flow's."""
        flow, slash, _ = start.id.partition("/")
        if not slash or (start.chain is not None and start.position > 0):
            return
        cursor: str | None = None
        deadline = time.monotonic() + PATIENCE
        while len(self._jobs) < MOST_JOBS:
            which = Filter(id_prefix=f"{flow}/")
            page = await self._site.app.client.look.jobs(which, FLOW_JOBS_AT_ONCE, cursor)
            self._jobs |= {(job.queue, job.id): job for job in page.jobs if job.holds_id}
            cursor = page.cursor
            if cursor is None:
                return
            if len(page.jobs) < FLOW_JOBS_AT_ONCE and time.monotonic() > deadline:
                break
        self._cut = True

    async def _joined(self, job: JobRecord) -> list[Name]:
        """Return what comes before and after a job."""
        store, name = self._site.app.store, (job.queue, job.id)
        async with self._turns:
            before = [(each.ref.queue, each.ref.id) for each in await store.blockers(job.queue, job.id, job.run)]
            self._after.setdefault(name, []).extend(before)
            later = await store.dependants(job.queue, job.id, job.run, limit=200)
            for each in later.jobs:
                self._after.setdefault((each.queue, each.id), []).append(name)
            self._cut = self._cut or later.count > len(later.jobs)
            steps = await self._chain(job) if job.chain is not None else []
        return [*before, *((each.queue, each.id) for each in later.jobs), *steps]

    async def _chain(self, job: JobRecord) -> list[Name]:
        """Add the jobs of a chain, in their order; read once, from its first job."""
        assert job.chain is not None
        first = (job.chain.queue, job.chain.id)
        if (job.queue, job.id) != first:
            return [first] if first not in self._jobs else []
        found: list[JobRecord] = []
        cursor: str | None = None
        while len(found) < MOST_JOBS:
            page = await self._site.app.client.look.jobs(Filter(chain=job.chain), 500, cursor)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                break
        found.sort(key=lambda each: each.position)
        for one, other in itertools.pairwise(found):
            self._steps[other.queue, other.id] = one.queue, one.id
        if found:
            self._last[first] = found[-1].queue, found[-1].id
        self._jobs |= {(each.queue, each.id): each for each in found}
        return []

    async def _look_up(self, names: set[Name]) -> list[JobRecord]:
        room = MOST_JOBS - len(self._jobs)
        self._cut = self._cut or len(names) > room
        by_queue: dict[str, list[str]] = {}
        for queue, id in list(names)[: max(0, room)]:
            by_queue.setdefault(queue, []).append(id)
        found = [job for queue, ids in by_queue.items() for job in await self._site.app.client.look.look_up(ids, queue)]
        self._jobs |= {(job.queue, job.id): job for job in found}
        return found
