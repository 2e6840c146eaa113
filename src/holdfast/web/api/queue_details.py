"""What is known of queues beyond their counts: keys, layers of settings, and the measures of the whole store."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import json_form
from ...json_form import JsonObject
from ...store.contract import KeyOrder
from .endpoint import ApiCall, EndpointGroup
from .names import PageSize
from .queues import unknown_queue
from .shapes import KeyList, LayersShape, MeasureShape

group = EndpointGroup("queues")


class KnownQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue that the store knows."""

    name: str


class KeysQuery(KnownQueue, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which queue, which keys first, and how many."""

    order: KeyOrder = "busiest"
    limit: PageSize = 50


@group.add("GET", "/queue/keys", query=KeysQuery, answer=KeyList)
async def list_keys(call: ApiCall[KeysQuery, None]) -> JsonObject:
    """List concurrency keys of a queue with their jobs and limits: `busiest` or `starved` first, or by `name`."""
    now = await _must_know(call)
    query = call.query
    found = await call.app.queue(query.name).keys(order=query.order, limit=query.limit)
    return {"name": query.name, "keys": [json_form.key(each, now) for each in found]}


@group.add("GET", "/queue/layers", query=KnownQueue, answer=LayersShape)
async def get_layers(call: ApiCall[KnownQueue, None]) -> JsonObject:
    """Show where the settings of a queue and its tasks come from: declared by code, in which version, or set above."""
    await _must_know(call)
    found: JsonObject = msgspec.to_builtins(await call.app.queue(call.query.name).layers())
    return found


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


async def _must_know(call: ApiCall[Any, None]) -> int:
    """Return the store's time, unless it does not know the queue."""
    queues, now = await call.site.glance.queues()
    if not any(each.name == call.query.name for each in queues):
        raise unknown_queue(call.query.name)
    return now
