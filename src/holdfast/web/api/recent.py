"""What happened lately, as the server has followed it from the log: read from memory, it costs the store nothing.

Instants are milliseconds since the epoch, of the store's clock, as `holdfast top --json` has them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from ...telemetry.recent import Chart, Concern, DepthChart, FailureGroup, FollowState, RecentView, Step
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup

group = EndpointGroup("recent")


class RecentQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many seconds back."""

    seconds: Annotated[int, Meta(ge=1, le=3 * 3600)] = 60


class ChartQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one queue, of one task of it, or of all; a task has minutes alone, and the empty name is plain payloads'."""

    queue: str | None = None
    task: str | None = None
    step: Step = "second"


class DepthQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one queue."""

    queue: str


class FailuresQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those of one queue, or all."""

    queue: str | None = None


class FailureList(TypedDict):
    """Errors by their signature, the most recent first, and how the following goes."""

    failures: list[FailureGroup]
    state: FollowState


class ConcernList(TypedDict):
    """What needs attention, the worst first."""

    attention: list[Concern]


@group.add("GET", "/recent", query=RecentQuery, answer=RecentView)
async def get_recent(call: ApiCall[RecentQuery, None]) -> RecentView:
    """Show traffic by queue and task, failures by signature, and how the following itself goes."""
    return call.site.recent.view(call.query.seconds)


@group.add("GET", "/recent/chart", query=ChartQuery, answer=Chart)
async def get_chart(call: ApiCall[ChartQuery, None]) -> Chart:
    """Return columns of the last 5 minutes by `second`, or of the last 3 hours by `minute`."""
    query, recent = call.query, call.site.recent
    if query.task is None:
        return recent.chart(query.queue, query.step)
    if query.queue is None:
        raise Problem(400, "bad-parameter", "task: a task is one of a queue: give queue, too")
    return recent.task_chart(query.queue, query.task or None)


@group.add("GET", "/recent/depth", query=DepthQuery, answer=DepthChart)
async def get_depth(call: ApiCall[DepthQuery, None]) -> DepthChart:
    """Return the jobs of a queue by state for each minute of the last 3 hours; null where nobody looked."""
    return call.site.recent.depth(call.query.queue)


@group.add("GET", "/recent/failures", query=FailuresQuery, answer=FailureList)
async def list_failures(call: ApiCall[FailuresQuery, None]) -> FailureList:
    """List errors by their signature; `GET /jobs?signature=` has their jobs, and `POST /operations` requeues them."""
    recent, queue = call.site.recent, call.query.queue
    found = [each for each in recent.failures() if queue is None or queue in each.queues]
    return {"failures": found, "state": recent.state()}


@group.add("GET", "/recent/attention", answer=ConcernList)
async def list_concerns(call: ApiCall[Any, None]) -> ConcernList:
    """List what needs attention: backlogs, dead workers, tasks that fail, paused queues."""
    glance = call.site.glance
    queues, _ = await glance.queues()
    return {"attention": call.site.recent.attention(queues=queues, workers=await glance.workers())}
