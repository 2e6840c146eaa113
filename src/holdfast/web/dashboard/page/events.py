"""The latest events of the log, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from starlette.requests import Request
from starlette.responses import Response

from ....core.event import Event
from ....core.transition import TRANSITIONS
from ...site import Site, site_of
from ..filters import check_filters, check_word
from ..shell import show

SHOWN = 100
LOOKED_AT = 1000
"""Of so many of the latest events those are shown that match."""

TOLD = [name for name, transition in TRANSITIONS.items() if transition.event]
"""The transitions that have events."""


@dataclass(frozen=True)
class EventQuery:
    """Which events."""

    queue: str = ""
    id: str = ""
    transition: str = ""
    task: str = ""

    @classmethod
    def of_address(cls, given: Mapping[str, str]) -> EventQuery:
        """Return what an address asks for; raise for what is no filter."""
        names = [each.name for each in fields(cls)]
        check_filters(given, names)
        query = cls(*(given.get(name, "").strip() for name in names))
        check_word("transition", query.transition, TOLD)
        return query

    def matches(self, event: Event) -> bool:
        """Return whether an event is wanted."""
        return (
            self.queue in ("", event.queue)
            and event.id.startswith(self.id)
            and self.transition in ("", event.transition)
            and self.task in ("", event.task)
        )


async def events(request: Request) -> Response:
    """Show the latest events."""
    site = site_of(request)
    query = EventQuery.of_address(request.query_params)
    found = [event for event in await _latest(site, query) if query.matches(event)]
    queues, _ = await site.glance.queues()
    return await show(
        request, "events", "events.html", events=found[::-1][:SHOWN], chosen=query, looked_at=LOOKED_AT,
        transitions=TOLD, one_job=False, queue_names=sorted(each.name for each in queues),
    )  # fmt: skip


async def _latest(site: Site, query: EventQuery) -> list[Event]:
    plain = not (query.id or query.transition or query.task or query.queue)
    page = await site.app.store.events(f"end-{SHOWN if plain else LOOKED_AT}", limit=LOOKED_AT)
    return page.events
