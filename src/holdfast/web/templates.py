"""Pages by Jinja2: everything that a template prints is escaped, and hidden marks are made visible."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from .. import __version__
from ..core.visible import visible, visible_lines
from .address import href, root_of
from .site import site_of

PLACE = Path(__file__).parent / "dashboard"
STATIC = PLACE / "static"


def _text(value: object) -> object:
    """Return a value as a template prints it: text in which everything can be seen, and nothing for `None`."""
    return visible_lines(value) if type(value) is str else "" if value is None else value


@cache
def environment() -> Environment:
    """Return the one environment of all pages."""
    made = Environment(
        loader=FileSystemLoader(PLACE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["visible"] = visible
    made.globals["version"] = __version__
    return made


def page(request: Request, name: str, status: int = 200, **context: object) -> HTMLResponse:
    """Return a page. Templates know the request, `identity`, `csrf`, `may_change`, `href` and `asset`."""
    root, site = root_of(request), site_of(request)
    identity = getattr(request.state, "identity", None)
    known = {
        "request": request,
        "identity": identity,
        "csrf": getattr(request.state, "csrf", ""),
        "may_change": site.may_change(identity),
        "read_only": site.settings.read_only,
        "logs_in": site.callers.logs_in,
        "href": lambda path, **query: href(root, path, **query),
        "asset": lambda file: f"{root}/static/{file}?v={digest(file)}",
    }
    return HTMLResponse(environment().get_template(name).render({**known, **context}), status)


@cache
def digest(file: str) -> str:
    """Return a mark of what a static file holds, so that a browser takes the new one after a deploy."""
    return hashlib.sha256((STATIC / file).read_bytes()).hexdigest()[:12]
