"""The dashboard: pages below the place where the application is mounted.

A page is a function of `page/` that reads what it shows (`view/`), draws its pictures (`draw/`) and returns
`show(request, name, "name.html", …)`. Templates stand in `templates/`, scripts and styles in `static/`. Before a page
runs, `auth.gate` has found out who asks and opened the app. Forms that change something go to `/do/…` and `/bulk` with
the token against forged requests; every page works without its script, which only keeps it up to date.

Jobs are named in the query of an address (`/job?queue=…&id=…`), and not in its path: an id may be `..` or hold a slash.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

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
from .patience import Page, soon
from .shell import equip

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
        *(Route(path, page if page is live_updates else soon(page), methods=["GET"]) for path, page in PAGES.items()),
        *(Route(path, form, methods=["POST"]) for path, form in FORMS.items()),
    ]
