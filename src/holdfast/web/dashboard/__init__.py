"""The dashboard: pages below the place where the application is mounted.

A page is a route of `routes()` that returns `page(request, "name.html", …)`: templates stand in `templates/`, scripts
and styles in `static/`. Before it runs, `auth.gate` has found out who asks (`request.state.identity`) and opened the
app (`site_of(request).app`). Templates write addresses with `href("/jobs", state="failed")` and `asset("style.css")`.
Forms that change something carry `<input type="hidden" name="csrf" value="{{ csrf }}">`, scripts the header
`X-CSRF-Token` (it stands in `<meta name="csrf">`). Nothing inline: the content policy refuses it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..templates import page


async def overview(request: Request) -> Response:
    """Show the first page."""
    return page(request, "overview.html")


def routes() -> list[BaseRoute]:
    """Return the pages."""
    return [Route("/", overview, methods=["GET"])]
