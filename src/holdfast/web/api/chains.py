"""Chains: list, show, complete and delete."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import json_form
from ...core.state import State
from ...core.transition import Reply
from ...json_form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .names import PageSize, RunName, done
from .shapes import ChainList, ChainWhole, DeleteShape, ReplyShape

group = EndpointGroup("chains")


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
