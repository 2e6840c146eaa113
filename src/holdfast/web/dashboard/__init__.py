"""The dashboard: pages below the place where the application is mounted.

A page is a function of `page/` that reads what it shows (`view/`), draws its pictures (`draw/`) and returns
`show(request, name, "name.html", …)`. Templates stand in `templates/`, scripts and styles in `static/`. Before a page
runs, `auth.gate` has found out who asks and opened the app. Forms that change something go to `/do/…` and `/bulk` with
the token against forged requests; every page works without its script, which only keeps it up to date.

Jobs are named in the query of an address (`/job?queue=…&id=…`), and not in its path: an id may be `..` or hold a slash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...errors import StoreError
from ..site import site_of
from .live import live_updates
from .page.act import act, theme
from .page.bulk import confirm, operation, run
from .page.chains import chains, graph
from .page.events import events
from .page.failures import failures
from .page.job import data, job
from .page.jobs import jobs
from .page.lake import lake
from .page.overview import help_page, overview
from .page.queues import queue, queues
from .page.schedules import schedules
from .page.workers import workers
from .shell import equip

Page = Callable[[Request], Awaitable[Response]]
PATIENCE = 3.0
"""Seconds that a page waits for a store that did not answer the last time: the store's own patience is longer."""
PAGES: dict[str, Page] = {
    "/": overview,
    "/queues": queues,
    "/queue": queue,
    "/jobs": jobs,
    "/job": job,
    "/data": data,
    "/chains": chains,
    "/graph": graph,
    "/failures": failures,
    "/schedules": schedules,
    "/workers": workers,
    "/events": events,
    "/lake": lake,
    "/operation": operation,
    "/help": help_page,
    "/theme": theme,
    "/live-updates": live_updates,
}
FORMS: dict[str, Page] = {"/do/{action}": act, "/bulk": confirm, "/bulk/run": run}


def routes() -> list[BaseRoute]:
    """Return the pages, and where their forms go."""
    equip()
    return [
        *(Route(path, _soon(page), methods=["GET"]) for path, page in PAGES.items()),
        *(Route(path, form, methods=["POST"]) for path, form in FORMS.items()),
    ]


def _soon(page: Page) -> Page:
    """Return the page, which says soon that the store is away, where that is known."""

    async def answer(request: Request) -> Response:
        trouble = site_of(request).recent.state().trouble
        if trouble is None or page is live_updates:
            return await page(request)
        try:
            async with asyncio.timeout(PATIENCE):
                return await page(request)
        except TimeoutError:
            raise StoreError(trouble) from None

    return answer
