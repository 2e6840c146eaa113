"""The API itself: where things are, who asks, and its description."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import __version__
from ...json import form as json_form
from ...json.form import JsonObject
from ...store import shown
from ..address import root_of
from .endpoint import ROOT, ApiCall, EndpointGroup
from .shapes import IndexShape, MeasureShape, Object

group = EndpointGroup("server")


@group.add("GET", "", answer=IndexShape)
async def get_index(call: ApiCall[Any, None]) -> JsonObject:
    """Show the server: its version and store, who asks and what they may do."""
    root, identity = root_of(call.request), call.identity
    return {
        "name": "holdfast",
        "version": __version__,
        "store": shown(call.app.store.url),
        "identity": {"name": identity.name, "role": identity.role, "via": identity.via},
        "read_only": call.site.settings.read_only,
        "may_change": call.site.may_change(identity),
        "links": {
            "openapi": f"{root}{ROOT}/openapi.json",
            "jobs": f"{root}{ROOT}/jobs",
            "queues": f"{root}{ROOT}/queues",
            "events": f"{root}{ROOT}/events",
            "dashboard": f"{root}/",
        },
    }


@group.add("GET", "/openapi.json", answer=Object)
async def get_openapi(call: ApiCall[Any, None]) -> JsonObject:
    """Return this description."""
    from . import ENDPOINTS
    from .description.openapi import document

    return document(ENDPOINTS, root_of(call.request))


@group.add("GET", "/measure", answer=MeasureShape)
async def measure_store(call: ApiCall[Any, None]) -> JsonObject:
    """Measure the store: what grows, waits and is late. What it costs does not grow with the jobs."""
    found = await call.app.measure()
    return {
        "at": json_form.iso(found.now_ms),
        "queues": [
            {
                **json_form.queue(each.info, found.now_ms),
                "keys_at_limit": each.keys_at_limit,
                "scheduled_overdue_ms": each.scheduled_overdue_ms,
            }
            for each in found.queues
        ],
        "log": msgspec.to_builtins(found.log),
    }
