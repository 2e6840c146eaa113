"""What a job is joined to: those that it waits for, those that wait for it, and its other runs."""

from __future__ import annotations

import msgspec

from ...json.form import JsonObject
from .endpoint import ApiCall, EndpointGroup
from .jobs import record_of
from .names import JobName, PageSize, RunName
from .shapes import BlockerList, DependantList, RunList

group = EndpointGroup("jobs")


class DependantsQuery(RunName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run, and how many of those that wait for it are listed."""

    limit: PageSize = 50


class RunsQuery(JobName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An id, and how many of its runs are listed."""

    limit: PageSize = 50


@group.add("GET", "/job/blockers", query=RunName, answer=BlockerList)
async def list_blockers(call: ApiCall[RunName, None]) -> JsonObject:
    """List the chains that a job waits for, or waited for, in the order given."""
    record = await record_of(call)
    found = await call.app.store.blockers(record.queue, record.id, record.run)
    return {"blockers": [call.site.shown.blocker(each) for each in found]}


@group.add("GET", "/job/dependants", query=DependantsQuery, answer=DependantList)
async def list_dependants(call: ApiCall[DependantsQuery, None]) -> JsonObject:
    """List the jobs that wait for the chain of a job, and count them."""
    record = await record_of(call)
    queue = call.app.queue(record.queue)
    found = await queue.dependants(record.id, record.run, limit=call.query.limit)
    return {"jobs": msgspec.to_builtins(found.jobs), "count": found.count}


@group.add("GET", "/job/runs", query=RunsQuery, answer=RunList)
async def list_runs(call: ApiCall[RunsQuery, None]) -> JsonObject:
    """List the runs of an id that are kept, newest first."""
    queue, id = call.query.queue, call.query.id
    found = await call.app.queue(queue).runs(id, limit=call.query.limit)
    return {"jobs": [call.site.shown.job(each) for each in found or [await call.app.status(queue, id)]]}
