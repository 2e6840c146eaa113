"""The event log: pages of it, and live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import StreamingResponse

from ...errors import ConfigError
from ...json.form import JsonObject
from ..problem import Problem
from ..stream.frames import position_of
from ..stream.live import LiveStream
from ..stream.subscriber import Subscriber
from .endpoint import ApiCall, EndpointGroup
from .names import PageSize
from .shapes import EventList

group = EndpointGroup("events")
MOST_STREAMS = 1000


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events: after a position (`end` is from now on), of a queue, of one job of it."""

    after: str | None = None
    queue: str | None = None
    id: str | None = None
    limit: PageSize = 100


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events, and how many of them."""

    after: str | None = None
    """Begin behind this position; by default with what happens from now on. `Last-Event-ID` goes before it."""
    queue: str | None = None
    id: str | None = None
    events: bool = True
    """Send each event."""
    pulse: bool = False
    """Send, once a second, how many of which transition there were in each queue."""
    rate: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """At most so many events a second; `skipped` tells of the others."""


@group.add("GET", "/events", query=EventsQuery, answer=EventList)
async def list_events(call: ApiCall[EventsQuery, None]) -> JsonObject:
    """Return a page of the log, in the order of commits. Read on with `after=position`."""
    query = call.query
    _check(query.queue, query.id)
    after = None if query.after is None else position_of(query.after)
    with _told_of(after):
        page = await call.app.store.events(after, queue=query.queue, id=query.id, limit=query.limit)
    events = [call.site.shown.event(event) for event in page.events]
    return {"events": events, "position": page.position, "gap": page.gap, "reset": page.reset}


@group.add("GET", "/events/stream", query=StreamQuery, answer=str, media="text/event-stream")
async def stream_events(call: ApiCall[StreamQuery, None]) -> StreamingResponse:
    """Follow the log by server-sent events.

    Messages: `hello` at the start, `event` (its data is an event, its `id` the position), `pulse`, `skipped`; `gap`
    when events were trimmed unread, `reset` when the log is another one; `store_away` and `store_back`; `end` with a
    reason (`stopping`, or `behind` when the caller reads too slowly). A caller that comes back with `Last-Event-ID`
    misses nothing that the log still has.
    """
    query, site = call.query, call.site
    _check(query.queue, query.id)
    if len(site.stream) >= MOST_STREAMS:
        raise Problem(503, "too-many-streams", f"{MOST_STREAMS} streams are open", headers={"Retry-After": "5"})
    subscriber = Subscriber(query.queue, query.id, events=query.events, pulse=query.pulse, rate=query.rate)
    live = LiveStream(site.stream, call.app.store, site.shown.event, subscriber)
    after = _after(call.request, query)
    with _told_of(after):
        await live.start(after)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(live.messages(), headers=headers, media_type="text/event-stream")


def _after(request: Request, query: StreamQuery) -> str | None:
    last = request.headers.get("last-event-id")
    given = query.after if not last else last.encode("latin-1").decode("utf-8", "replace")
    return None if given is None else position_of(given)


@contextmanager
def _told_of(after: str | None) -> Iterator[None]:
    """A position that the log of this store did not give is told as such: who has it begins anew."""
    try:
        yield
    except ConfigError as error:
        raise error if after is None else Problem(400, "bad-position", str(error)) from None


def _check(queue: str | None, id: str | None) -> None:
    if id is not None and queue is None:
        raise Problem(400, "bad-parameter", "id: events of one job are those of a queue, too: give queue")
