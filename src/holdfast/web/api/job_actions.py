"""What operators do to one job: cancel, requeue, promote, delete, keep its result."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...core.transition import Reply
from ...json.form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .names import JobName, done
from .shapes import CancelShape, ReplyShape, RequeueShape

group = EndpointGroup("jobs")


class CancelForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a job that runs: leave it, tell its handler to stop, or kill its process."""

    running: Literal["refuse", "signal", "kill"] = "refuse"


class ResultTtlForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how many seconds the result is kept; null is for ever."""

    ttl: float | None


class EmptyForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing more is to be said."""


@group.add("POST", "/job/cancel", query=JobName, body=CancelForm, answer=CancelShape)
async def cancel_job(call: ApiCall[JobName, CancelForm]) -> JsonObject:
    """Cancel a job and its successor."""
    queue, id = call.query.queue, call.query.id
    found = await call.app.cancel(queue, id, call.body.running)
    if found.reply is Reply.OK and not (found.runs_on and not found.successor):
        return {"queue": queue, "id": id, **msgspec.to_builtins(found)}
    runs = 'it runs; {"running": "signal"} tells its handler to stop'
    return done(found.reply, queue, id, runs if found.runs_on else f"it is {found.state} already")


@group.add("POST", "/job/requeue", query=JobName, body=EmptyForm, answer=RequeueShape)
async def requeue_job(call: ApiCall[JobName, EmptyForm]) -> JsonObject:
    """Run a finished job anew."""
    queue, id = call.query.queue, call.query.id
    started = await call.app.requeue(id, queue=queue)
    if not started:
        record = await call.app.status(queue, id)
        raise Problem(409, "wrong-state", f"{queue}/{id} is {record.state}: only a finished job is run anew")
    return {"jobs": [{"queue": name, "id": which, "run": run} for name, which, run in started]}


@group.add("POST", "/job/promote", query=JobName, body=EmptyForm, answer=ReplyShape)
async def promote_job(call: ApiCall[JobName, EmptyForm]) -> JsonObject:
    """Let a scheduled job run now."""
    reply = await call.app.client.promote(call.query.queue, call.query.id)
    return done(reply, call.query.queue, call.query.id, "only a scheduled job waits for its time")


@group.add("DELETE", "/job", query=JobName, answer=ReplyShape)
async def delete_job(call: ApiCall[JobName, None]) -> JsonObject:
    """Remove a job and its result, in whatever state it is; a handler that runs is told to stop."""
    reply = await call.app.client.delete(call.query.queue, call.query.id)
    return done(reply, call.query.queue, call.query.id, "it cannot be deleted in its state")


@group.add("PUT", "/job/result-ttl", query=JobName, body=ResultTtlForm, answer=ReplyShape)
async def keep_result(call: ApiCall[JobName, ResultTtlForm]) -> JsonObject:
    """Keep a job's result for so long, from now or from its end."""
    reply = await call.app.queue(call.query.queue).keep_result(call.query.id, call.body.ttl)
    return done(reply, call.query.queue, call.query.id, "it keeps no result")
