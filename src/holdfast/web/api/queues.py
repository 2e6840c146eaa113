"""Queues: counts, limits, keys, pause and resume, and where settings come from."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import msgspec

from ...app.options import LiveQueueOptions
from ...app.queue import AnyQueue
from ...core.limit import Rate
from ...json import form as json_form
from ...json.form import JsonObject
from ...store.contract import KeyOrder, QueueInfo
from ..problem import Problem
from ..site import Site
from .endpoint import ApiCall, EndpointGroup
from .job_actions import EmptyForm
from .names import PageSize, QueueName
from .shapes import KeyList, LayersShape, QueueList, QueueShape

group = EndpointGroup("queues")


class QueueSettingsForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a queue; null is no limit, and a `result_ttl` of null is for ever."""

    paused: bool | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    concurrency: int | msgspec.UnsetType | None = msgspec.UNSET
    key_concurrency: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: Rate | msgspec.UnsetType | None = msgspec.UNSET
    key_rate: Rate | msgspec.UnsetType | None = msgspec.UNSET
    result_ttl: float | msgspec.UnsetType | None = msgspec.UNSET
    retention: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    history: Literal["events", "payloads"] | msgspec.UnsetType = msgspec.UNSET

    def given(self) -> LiveQueueOptions:
        """Return the settings that are given, as `queue.set` takes them."""
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not msgspec.UNSET}
        if found.get("result_ttl", 0) is None:
            found["result_ttl"] = math.inf
        return cast(LiveQueueOptions, found)


class QueueForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is set above what workers declare, and what goes back to that."""

    set: QueueSettingsForm = QueueSettingsForm()
    clear: tuple[str, ...] = ()


class KeyLimitForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key, and how many of its jobs may run at once; null is as the queue says."""

    key: str
    concurrency: int | None


class ResetForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the limits of keys go, too."""

    keys: bool = False


@group.add("GET", "/queues", answer=QueueList)
async def list_queues(call: ApiCall[Any, None]) -> JsonObject:
    """List every queue with its counts, settings and what operators set. It is at most a second old."""
    found, now = await call.site.glance.queues()
    return {"queues": [json_form.queue(info, now) for info in found], "at": json_form.iso(now)}


@group.add("GET", "/queue", query=QueueName, answer=QueueShape)
async def get_queue(call: ApiCall[QueueName, None]) -> JsonObject:
    """Show one queue."""
    found, now = await call.site.glance.queues()
    for info in found:
        if info.name == call.query.name:
            return json_form.queue(info, now)
    raise unknown_queue(call.query.name)


@group.add("PATCH", "/queue", query=QueueName, body=QueueForm, answer=QueueShape)
async def configure_queue(call: ApiCall[QueueName, QueueForm]) -> JsonObject:
    """Set what holds from the next claim on, above what workers declare, until it is cleared."""
    queue = await _queue(call)
    given = call.body.set.given()
    if not given and not call.body.clear:
        raise Problem(400, "bad-body", "give what is to be set, or the names of what is to be cleared")
    await queue.set(clear=call.body.clear, **given)
    return await _shown(call.site, queue)


@group.add("POST", "/queue/pause", query=QueueName, body=EmptyForm, answer=QueueShape)
async def pause_queue(call: ApiCall[QueueName, EmptyForm]) -> JsonObject:
    """Claim nothing from a queue until it is resumed. What runs goes on."""
    queue = await _queue(call)
    await queue.pause()
    return await _shown(call.site, queue)


@group.add("POST", "/queue/resume", query=QueueName, body=EmptyForm, answer=QueueShape)
async def resume_queue(call: ApiCall[QueueName, EmptyForm]) -> JsonObject:
    """Claim from a queue again."""
    queue = await _queue(call)
    await queue.resume()
    return await _shown(call.site, queue)


@group.add("POST", "/queue/reset", query=QueueName, body=ResetForm, answer=QueueShape)
async def reset_queue(call: ApiCall[QueueName, ResetForm]) -> JsonObject:
    """Clear everything that operators set of a queue: what workers declare holds again."""
    queue = await _queue(call)
    info = await queue.info()
    if info is not None and info.overrides:
        await queue.set(clear=["result_ttl" if name == "result_ttl_ms" else name for name in info.overrides])
    for key in info.key_overrides if info is not None and call.body.keys else ():
        await queue.limit_key(key, None)
    return await _shown(call.site, queue)


@group.add("PUT", "/queue/key-limit", query=QueueName, body=KeyLimitForm, answer=QueueShape)
async def limit_key(call: ApiCall[QueueName, KeyLimitForm]) -> JsonObject:
    """Give one key a concurrency of its own; null takes it away."""
    queue = await _queue(call)
    await queue.limit_key(call.body.key, call.body.concurrency)
    return await _shown(call.site, queue)


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


async def _must_know(call: ApiCall[Any, None]) -> int:
    """Return the store's time, unless it does not know the queue."""
    queues, now = await call.site.glance.queues()
    if not any(each.name == call.query.name for each in queues):
        raise unknown_queue(call.query.name)
    return now


async def _queue(call: ApiCall[QueueName, Any]) -> AnyQueue:
    """Return the queue to be changed; one that the store does not know only when that is meant."""
    queue: AnyQueue = call.app.queue(call.query.name)
    if not call.query.create and await queue.info() is None:
        raise unknown_queue(call.query.name)
    return queue


async def _shown(site: Site, queue: AnyQueue) -> JsonObject:
    info: QueueInfo | None = await queue.info()
    if info is None:
        raise unknown_queue(queue.name)
    return json_form.queue(info, await site.app.store.now_ms())


def unknown_queue(name: str) -> Problem:
    """Return the problem of a queue that the store does not know."""
    return Problem(404, "queue-missing", f"the store knows no queue {name!r} (yet)")
