"""The API itself: where things are, who asks, and its description."""

from __future__ import annotations

from typing import Any

from ... import __version__
from ...json_form import JsonObject
from ...store import shown
from ..address import root_of
from .endpoint import ROOT, ApiCall, EndpointGroup
from .shapes import IndexShape, Object

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
