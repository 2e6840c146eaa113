"""Workers."""

from __future__ import annotations

from typing import Any

from ... import json_form
from ...json_form import JsonObject
from .endpoint import ApiCall, EndpointGroup
from .shapes import WorkerList

group = EndpointGroup("workers")


@group.add("GET", "/workers", answer=WorkerList)
async def list_workers(call: ApiCall[Any, None]) -> JsonObject:
    """List every worker that the store knows. It is at most a second old. Their jobs: `GET /jobs?worker=NAME`."""
    return {"workers": [json_form.worker(info) for info in await call.site.glance.workers()]}
