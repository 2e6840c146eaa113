"""Workers: who they are, and the order to end."""

from __future__ import annotations

from typing import Any

import msgspec

from ...json import form as json_form
from ...json.form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .shapes import StopShape, WorkerList

group = EndpointGroup("workers")


class WorkerName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker, by its name or the id of its session; the name of several processes means all of them."""

    worker: str


class StopForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether it first ends what it runs; else that is given back."""

    drain: bool = True


@group.add("GET", "/workers", answer=WorkerList)
async def list_workers(call: ApiCall[Any, None]) -> JsonObject:
    """List every worker that the store knows. It is at most a second old. Their jobs: `GET /jobs?worker=NAME`."""
    return {"workers": [json_form.worker(info) for info in await call.site.glance.workers()]}


@group.add("POST", "/worker/stop", query=WorkerName, body=StopForm, answer=StopShape)
async def stop_worker(call: ApiCall[WorkerName, StopForm]) -> JsonObject:
    """Tell a worker to end: it hears of it within a heartbeat, and ends what it runs first, unless told otherwise."""
    told = await call.app.stop_worker(call.query.worker, drain=call.body.drain)
    if not told:
        raise Problem(404, "worker-missing", f"no worker named {call.query.worker!r} is alive")
    return {"sessions": told}
