"""Schedules: when they tick next, and how their last jobs ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ....core.job import JobRecord
from ....core.schedule import Schedule
from ....core.tick import At, Cron, Every
from ....store.contract import Filter
from ...site import Site, site_of
from ..shell import show

TICKS = 3
RUNS = 3


@dataclass(frozen=True)
class ScheduleView:
    """A schedule with its next ticks and its last jobs."""

    schedule: Schedule
    ticks: list[int]
    runs: list[JobRecord]

    @property
    def spec_text(self) -> str:
        """When it is due, as the form takes it."""
        spec = self.schedule.spec
        if isinstance(spec, Cron):
            return spec.text
        return f"every {spec.seconds:g}" if isinstance(spec, Every) else ""

    @property
    def tz(self) -> str:
        """The time zone of a cron text."""
        spec = self.schedule.spec
        return spec.tz if isinstance(spec, Cron) else "UTC"


async def schedules(request: Request) -> Response:
    """Show every schedule."""
    site = site_of(request)
    found = await site.app.schedules.list()
    rows = await asyncio.gather(*(_view(site, each) for each in found))
    return await show(request, "schedules", "schedules.html", schedules=rows)


async def _view(site: Site, schedule: Schedule) -> ScheduleView:
    ticks = [round(at.timestamp() * 1000) for at in schedule.upcoming(1 if isinstance(schedule.spec, At) else TICKS)]
    name = schedule.name
    own = {"ids": (name,)} if schedule.plan.overlap == "successor" else {"id_prefix": f"{name}/"}
    which = Filter(queue=schedule.queue, **own)
    page = await site.app.client.look.jobs(which, RUNS)
    return ScheduleView(schedule, ticks, page.jobs)
