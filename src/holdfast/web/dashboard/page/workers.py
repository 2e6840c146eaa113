"""Workers, and what each runs at this moment."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ....core.job import JobRecord
from ....core.state import State
from ....store.contract import Filter, SessionInfo
from ...site import Site, site_of
from ..draw.chart import bar
from ..shell import show

JOBS_SHOWN = 25


@dataclass(frozen=True)
class WorkerRow:
    """A worker with what it holds."""

    info: SessionInfo
    active: int
    """How many jobs it runs, as of the list below it: its own count may be a moment older."""
    jobs: list[JobRecord]
    bar: Markup
    memory: int | None
    version: str | None
    stopping: str | None
    can_stop: bool


async def workers(request: Request) -> Response:
    """Show every worker."""
    site = site_of(request)
    found = sorted(await site.glance.workers(), key=lambda info: (not info.alive, info.session.name))
    return await show(request, "workers", "workers.html", workers=[await _view(site, info) for info in found])


async def _view(site: Site, info: SessionInfo) -> WorkerRow:
    jobs: list[JobRecord] = []
    if info.active:
        which = Filter(states=(State.ACTIVE,), holders=(info.session.id,))
        jobs = (await site.app.client.look.jobs(which, JOBS_SHOWN)).jobs
    active = len(jobs) if len(jobs) < JOBS_SHOWN else max(info.active, len(jobs))
    free = max(0, info.session.slots - active)
    picture = bar([("active", active), ("none", free)], f"{active} of {info.session.slots} slots are in use")
    return WorkerRow(
        info, active, sorted(jobs, key=lambda job: job.started_at_ms or 0), picture,
        getattr(info, "memory_bytes", None), getattr(info.session, "version", None), _told(info),
        hasattr(site.app, "stop_worker"),
    )  # fmt: skip


def _told(info: SessionInfo) -> str | None:
    """Return what a worker was told to do, and has yet to be done with."""
    command = getattr(info, "command", None)
    return {"drain": "draining", "stop": "stopping"}.get(str(command)) if command else None
