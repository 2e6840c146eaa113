"""How long a page waits for its store: the store's own patience is longer than that of who looks at the page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from ...errors import StoreError
from ...store import shown
from ..site import Site, site_of

Page = Callable[[Request], Awaitable[Response]]
PATIENCE = 2.0
"""After so many seconds a page asks whether the store answers at all; so long it waits for that."""


def soon(page: Page) -> Page:
    """Return the page, which says soon that the store is away. It may take long while the store answers."""

    async def answer(request: Request) -> Response:
        site, task = site_of(request), asyncio.ensure_future(page(request))
        try:
            while not (await asyncio.wait([task], timeout=PATIENCE))[0]:
                await _check(site, task)
            return task.result()
        finally:
            task.cancel()

    return answer


async def _check(site: Site, task: asyncio.Future[Response]) -> None:
    """Raise when the store does not answer, and the page is not there meanwhile either."""
    if (trouble := site.recent.state().trouble) is not None:
        raise StoreError(trouble)
    try:
        async with asyncio.timeout(PATIENCE):
            await site.app.store.now_ms()
    except (TimeoutError, StoreError):
        if not task.done():
            raise StoreError(f"{shown(site.app.store.url)} has not answered for {2 * PATIENCE:g} seconds") from None
