"""Where following begins."""

from __future__ import annotations

from ...errors import ConfigError
from ...store.contract import EventPage, Store
from .options import RecentOptions


async def first_page(store: Store, options: RecentOptions) -> EventPage:
    """Return the page that begins some events before the end; at the end, in a store that cannot count back."""
    if options.back > 0:
        try:
            return await store.events(f"end-{options.back}", limit=options.page)
        except ConfigError:
            pass
    return await store.events("end")
