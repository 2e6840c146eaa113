"""Chains: list, show, complete and delete; and flows, whose jobs are those with ids that begin with the flow's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from ...core.job import JobRecord
from ...core.state import FINISHED, State
from ...core.transition import Reply
from ...json import form as json_form
from ...json.form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .names import PageSize, RunName, done
from .shapes import ChainList, ChainWhole, DeleteShape, FlowShape, ReplyShape

group = EndpointGroup("chains")
MOST_FLOW_JOBS = 10_000
FLOW_JOBS_AT_ONCE = 1000


class ChainsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which chains, by the queue and task of their first jobs, and which page of them."""

    queue: str | None = None
    state: State | None = None
    task: str | None = None
    limit: PageSize = 50
    cursor: str | None = None


class ChainQuery(RunName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chain, by its first job or any other, and which page of its jobs, the last first."""

    limit: PageSize = 100
    cursor: str | None = None


class CompleteForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of the chain, of the type that its first task returns."""

    result: Any = None


class DeleteQuery(RunName, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chain, and whether those that wait for it go, too."""

    cascade: bool = False


@group.add("GET", "/chains", query=ChainsQuery, answer=ChainList)
async def list_chains(call: ApiCall[ChainsQuery, None]) -> JsonObject:
    """List chains of more than one job, newest first."""
    given = {name: value for name, value in msgspec.structs.asdict(call.query).items() if value is not None}
    page = await call.app.chains(**given)
    return {"chains": [json_form.chain(each) for each in page.chains], "cursor": page.cursor}


@group.add("GET", "/chain", query=ChainQuery, answer=ChainWhole)
async def get_chain(call: ApiCall[ChainQuery, None]) -> JsonObject:
    """Show one chain, its result and a page of its jobs, by its first job or any other."""
    query = call.query
    chain = await call.app.chain(query.queue, query.id, query.run)
    page = await call.app.jobs(chain=chain.ref, limit=query.limit, cursor=query.cursor)
    jobs = sorted(map(call.site.shown.job, page.jobs), key=lambda job: int(job["position"]))
    return {
        **json_form.chain(chain),
        "result": call.site.shown.chain_result(chain),
        "jobs": jobs,
        "cursor": page.cursor,
    }


@group.add("POST", "/chain/complete", query=RunName, body=CompleteForm, answer=ReplyShape)
async def complete_chain(call: ApiCall[RunName, CompleteForm]) -> JsonObject:
    """Complete a chain, or a single job, from outside, with this result. A handler that runs is told to stop."""
    query = call.query
    reply = await call.app.complete_chain(query.queue, query.id, call.body.result, run=query.run)
    return done(reply, query.queue, query.id, "it is over already")


@group.add("DELETE", "/chain", query=DeleteQuery, answer=DeleteShape)
async def delete_chain(call: ApiCall[DeleteQuery, None]) -> JsonObject:
    """Delete every job of a chain. Refused while others wait for it, unless they go, too (`cascade`)."""
    query = call.query
    found = await call.app.delete_chain(query.queue, query.id, run=query.run, cascade=query.cascade)
    if found.reply is Reply.WRONG_STATE:
        waiting = [msgspec.to_builtins(ref) for ref in found.waiting[:100]]
        raise Problem(
            409, "chain-awaited", f"{len(found.waiting)} jobs wait for {query.queue}/{query.id}: cascade=true deletes "
            "them, too", waiting=waiting,
        )  # fmt: skip
    return {**done(found.reply, query.queue, query.id, "it cannot be deleted"), "chains": found.chains}


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
    jobs, more = await _flow_jobs(call, f"{flow}/")
    if not jobs:
        raise Problem(404, "flow-missing", f"there is no job of a flow {flow!r}, or all have expired")
    counts = Counter(str(job.outcome) for job in jobs)
    over = not more and all(job.outcome in FINISHED for job in jobs)
    shown = sorted((_flow_job(job, flow) for job in jobs), key=lambda each: str(each["name"]))
    return {"id": flow, "counts": counts, "over": over, "more": more, "jobs": shown}


async def _flow_jobs(call: ApiCall[FlowName, None], prefix: str) -> tuple[list[JobRecord], bool]:
    """Return the runs that hold their ids, and whether there are more than are read."""
    found: list[JobRecord] = []
    cursor: str | None = None
    while len(found) < MOST_FLOW_JOBS:
        page = await call.app.jobs(id_prefix=prefix, limit=FLOW_JOBS_AT_ONCE, cursor=cursor)
        found += [job for job in page.jobs if job.holds_id and job.position == 0]
        cursor = page.cursor
        if cursor is None:
            return found, False
    return found, True


def _flow_job(job: JobRecord, flow: str) -> JsonObject:
    return {
        "queue": job.queue,
        "id": job.id,
        "run": job.run,
        "name": job.id.removeprefix(f"{flow}/"),
        "task": job.task,
        "state": job.outcome,
        "blockers": job.blockers,
    }
